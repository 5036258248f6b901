package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Sizes of the plot, in pixels.
const (
	plotWidth  = 900
	labelWidth = 400
	barHeight  = 18
	curveSide  = 320
	plotTop    = 34
)

var curveColours = []string{"#b35900", "#1f6feb", "#e0a458", "#79b8ff"}

// canvas collects the elements of an SVG.
type canvas struct{ b strings.Builder }

func (c *canvas) text(x, y float64, anchor, s string) {
	fmt.Fprintf(&c.b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, html.EscapeString(s))
}

func (c *canvas) rect(x, y, w, h float64, colour string) {
	fmt.Fprintf(&c.b, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>\n", x, y, w, h, colour)
}

func (c *canvas) line(x1, y1, x2, y2 float64, colour string) {
	fmt.Fprintf(&c.b, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x1, y1, x2, y2, colour)
}

// plot draws what is compared with the empty program and with native edits as bars, and times by the number of spec files as curves.
func (t *table) plot() string {
	var c canvas
	y := t.bars(&c, 10, floorName, "Times the empty program")
	y = t.bars(&c, y, "native edits", "Create and start: times native edits")
	y = t.drawCurves(&c, y)
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n%s</svg>\n", plotWidth, y, c.b.String())
}

// bars draws the rows that are compared with one thing, with a mark where the target is, and returns where they end.
func (t *table) bars(c *canvas, y float64, against, title string) float64 {
	c.text(10, y+14, "start", title)
	y += plotTop - 10
	longest := 1.0
	for _, r := range t.rows {
		if r.against == against {
			longest = max(longest, r.ratio, r.limit)
		}
	}
	scale := (plotWidth - labelWidth - 70) / longest
	for _, r := range t.rows {
		if r.against != against {
			continue
		}
		colour := "#1f6feb"
		if _, met := r.target(); !met {
			colour = "#cf222e"
		}
		c.text(labelWidth-8, y+13, "end", r.name)
		c.rect(labelWidth, y+2, r.ratio*scale, barHeight-4, colour)
		c.text(labelWidth+r.ratio*scale+4, y+13, "start", fmt.Sprintf("%.2f", r.ratio))
		if r.limit > 0 {
			c.line(labelWidth+r.limit*scale, y, labelWidth+r.limit*scale, y+barHeight, "black")
		}
		y += barHeight
	}
	c.line(labelWidth+scale, y-2, labelWidth+scale, y+4, "gray")
	return y + 20
}

// drawCurves has both axes logarithmic.
func (t *table) drawCurves(c *canvas, y float64) float64 {
	c.text(10, y+14, "start", "Milliseconds to resolve one name, by number of spec files; both axes logarithmic; black lines on bars above are targets")
	left, top := 60.0, y+plotTop
	low, high, most := math.Inf(1), 0.0, 1.0
	for _, points := range t.curves {
		for _, p := range points {
			low, high, most = min(low, ms(p.took.Wall)), max(high, ms(p.took.Wall)), max(most, float64(p.n))
		}
	}
	if high == 0 {
		return top
	}
	low, high = math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	at := func(n, t float64) (float64, float64) {
		return left + math.Log10(n)/math.Log10(max(most, 10))*curveSide*1.6, top + curveSide*(high-math.Log10(t))/max(high-low, 1)
	}
	for e := low; e <= high; e++ {
		_, h := at(1, math.Pow(10, e))
		c.line(left, h, left+curveSide*1.6, h, "#ddd")
		c.text(left-6, h+4, "end", fmt.Sprintf("%g", math.Pow(10, e)))
	}
	for n := 1.0; n <= most; n *= 10 {
		x, _ := at(n, 1)
		c.line(x, top, x, top+curveSide, "#ddd")
		c.text(x, top+curveSide+16, "middle", fmt.Sprintf("%g", n))
	}
	for i, name := range t.lines {
		colour := curveColours[i%len(curveColours)]
		var path []string
		for _, p := range t.curves[name] {
			x, h := at(float64(p.n), ms(p.took.Wall))
			path = append(path, fmt.Sprintf("%.1f,%.1f", x, h))
			c.rect(x-2.5, h-2.5, 5, 5, colour)
		}
		fmt.Fprintf(&c.b, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n", strings.Join(path, " "), colour)
		c.rect(left+curveSide*1.6+20, top+float64(i)*barHeight, 12, 12, colour)
		c.text(left+curveSide*1.6+38, top+float64(i)*barHeight+11, "start", name)
	}
	return top + curveSide + 30
}
