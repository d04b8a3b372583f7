package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
)

// table collects the rounds of every cell.
type table struct {
	rows   []row
	rivals []rival
	cells  map[string][]result
}

func newTable(rows []row, rivals []rival) *table {
	return &table{rows: rows, rivals: rivals, cells: map[string][]result{}}
}

func (t *table) add(w row, v rival, r result) {
	t.cells[w.name+"/"+v.name] = append(t.cells[w.name+"/"+v.name], r)
}

// spread is the median of the rounds, and the least and the most.
type spread struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

func (t *table) spread(w row, v rival, of func(result) float64) spread {
	var all []float64
	for _, r := range t.cells[w.name+"/"+v.name] {
		all = append(all, of(r))
	}
	return spreadOf(all)
}

// spreadOf sorts the figures.
func spreadOf(all []float64) spread {
	slices.Sort(all)
	n := len(all)
	return spread{(all[n/2] + all[(n-1)/2]) / 2, all[0], all[n-1]}
}

func (t *table) failed(w row, v rival) (n int64) {
	for _, r := range t.cells[w.name+"/"+v.name] {
		n += r.Failed
	}
	return n
}

func nsPerOp(r result) float64     { return r.NsPerOp }
func bytesPerKey(r result) float64 { return r.BytesPerKey }
func gcMillis(r result) float64    { return r.GCMillis }

// print writes one table per row, ours first, each beside ours as a ratio.
func (t *table) print(w io.Writer) {
	fmt.Fprintf(w, "%s, %s/%s, %d processors\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0))
	fmt.Fprintf(w, "%s\n", strings.Join(versions(), ", "))
	for _, r := range t.rows {
		fmt.Fprintf(w, "\n%s: %s\n", r.name, r.what)
		tw := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
		if r.weigh {
			fmt.Fprint(tw, "  limiter\tbytes a key\tfull GC ms\t\n")
		} else {
			fmt.Fprint(tw, "  limiter\tns a decision\tleast to most\tof caudal's\twrongly refused\t\n")
		}
		ours := t.spread(r, t.rivals[0], nsPerOp)
		for _, v := range t.rivals {
			if r.weigh {
				fmt.Fprintf(tw, "  %s\t%.0f\t%.1f\t\n", v.name, t.spread(r, v, bytesPerKey).Median, t.spread(r, v, gcMillis).Median)
				continue
			}
			s := t.spread(r, v, nsPerOp)
			fmt.Fprintf(tw, "  %s\t%.0f\t%.0f to %.0f\t%.2fx\t%d\t\n", v.name, s.Median, s.Least, s.Most, s.Median/ours.Median, t.failed(r, v))
		}
		_ = tw.Flush()
	}
	fmt.Fprintln(w, "\nWhat the figures do not show:")
	for _, v := range t.rivals {
		if v.lacks != "" {
			fmt.Fprintf(w, "  %s: %s\n", v.name, v.lacks)
		}
	}
}

// cell is one cell for machines.
type cell struct {
	Row         string  `json:"row"`
	What        string  `json:"what"`
	Limiter     string  `json:"limiter"`
	NsPerOp     *spread `json:"ns_per_op,omitempty"`
	BytesPerKey *spread `json:"bytes_per_key,omitempty"`
	GCMillis    *spread `json:"gc_ms,omitempty"`
	Failed      int64   `json:"failed"`
}

func (t *table) machine() any {
	var cells []cell
	for _, r := range t.rows {
		for _, v := range t.rivals {
			c := cell{Row: r.name, What: r.what, Limiter: v.name, Failed: t.failed(r, v)}
			if r.weigh {
				b, g := t.spread(r, v, bytesPerKey), t.spread(r, v, gcMillis)
				c.BytesPerKey, c.GCMillis = &b, &g
			} else {
				n := t.spread(r, v, nsPerOp)
				c.NsPerOp = &n
			}
			cells = append(cells, c)
		}
	}
	return map[string]any{
		"go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH, "processors": runtime.GOMAXPROCS(0),
		"versions": versions(), "cells": cells,
	}
}

// versions gives the limiters' modules with their versions.
func versions() []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	measured := []string{"x/time", "throttled", "ulule", "go-limiter", "httprate", "juju", "tollbooth", "redis_rate"}
	var all []string
	for _, m := range info.Deps {
		if slices.ContainsFunc(measured, func(s string) bool { return strings.Contains(m.Path, s) }) {
			all = append(all, m.Path+" "+m.Version)
		}
	}
	return all
}
