package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/caudal-dev/caudal/internal/rlsbench"
)

// chooseWork gives the kinds of work that are named, all when none is.
func chooseWork(names string) ([]work, error) {
	if names == "" {
		return serviceWork, nil
	}
	var chosen []work
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(serviceWork, func(w work) bool { return w.name == name })
		if i < 0 {
			return nil, fmt.Errorf("-rows %s is not known: there are random, hot, denied", name)
		}
		chosen = append(chosen, serviceWork[i])
	}
	return chosen, nil
}

// serviceTable collects the rounds of every service at every kind of work.
type serviceTable struct {
	kinds   []work
	cells   map[string][]rlsbench.Result
	skipped []string
}

func (t *serviceTable) add(w work, v service, r rlsbench.Result) {
	t.cells[w.name+"/"+v.name] = append(t.cells[w.name+"/"+v.name], r)
}

// skip notes once why a service is not measured.
func (t *serviceTable) skip(name string, why error) {
	if line := fmt.Sprintf("%s is not measured: %v", name, why); !slices.Contains(t.skipped, line) {
		t.skipped = append(t.skipped, line)
	}
}

func (t *serviceTable) spread(w work, name string, of func(rlsbench.Result) float64) (s spread, ok bool) {
	rounds := t.cells[w.name+"/"+name]
	if len(rounds) == 0 {
		return s, false
	}
	var all []float64
	for _, r := range rounds {
		all = append(all, of(r))
	}
	return spreadOf(all), true
}

func cpuOf(r rlsbench.Result) float64       { return r.ServerCPU }
func perSecondOf(r rlsbench.Result) float64 { return r.PerSecond }
func p50Of(r rlsbench.Result) float64       { return r.P50 }
func p99Of(r rlsbench.Result) float64       { return r.P99 }

// deniedOf gives the share of denied calls, and errorsOf the calls without an answer.
func deniedOf(r rlsbench.Result) float64 { return float64(r.OverLimit) / float64(max(1, r.Requests)) }
func errorsOf(r rlsbench.Result) float64 { return float64(r.Errors) }

// print writes one table per kind of work. What a service adds is the processor time
// beside that of its floor.
func (t *serviceTable) print(w io.Writer) error {
	fmt.Fprintf(w, "%s, %s/%s, %d processors; gubernator %s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), gubernatorVersion)
	for _, k := range t.kinds {
		fmt.Fprintf(w, "\n%s: %s\n", k.name, k.what)
		tw := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
		fmt.Fprint(tw, "  service\tCPU us a request\tleast to most\tadds\tof its floor\trequests/s\tp50 us\tp99 us\tdenied\terrors\t\n")
		for _, v := range services {
			cpu, ok := t.spread(k, v.name, cpuOf)
			if !ok {
				continue
			}
			adds, ratio := "-", "-"
			if floor, ok := t.spread(k, v.floor, cpuOf); ok && floor.Median > 0 {
				adds, ratio = fmt.Sprintf("%+.1f", cpu.Median-floor.Median), fmt.Sprintf("%.2fx", cpu.Median/floor.Median)
			}
			median := func(of func(rlsbench.Result) float64) float64 {
				s, _ := t.spread(k, v.name, of)
				return s.Median
			}
			fmt.Fprintf(tw, "  %s\t%.1f\t%.1f to %.1f\t%s\t%s\t%.0f\t%.0f\t%.0f\t%.1f%%\t%.0f\t\n", v.name, cpu.Median, cpu.Least, cpu.Most, adds, ratio,
				median(perSecondOf), median(p50Of), median(p99Of), 100*median(deniedOf), median(errorsOf))
		}
		if err := tw.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintln(w, "\nWhat the figures do not show:")
	for _, v := range services {
		if v.lacks != "" {
			fmt.Fprintf(w, "  %s: %s\n", v.name, v.lacks)
		}
	}
	for _, line := range t.skipped {
		fmt.Fprintln(w, " ", line)
	}
	return nil
}

// machine gives the table for machines.
func (t *serviceTable) machine() any {
	type cell struct {
		Row     string            `json:"row"`
		What    string            `json:"what"`
		Service string            `json:"service"`
		Floor   string            `json:"floor,omitempty"`
		CPU     spread            `json:"cpu_us_per_request"`
		Rounds  []rlsbench.Result `json:"rounds"`
	}
	var cells []cell
	for _, k := range t.kinds {
		for _, v := range services {
			if cpu, ok := t.spread(k, v.name, cpuOf); ok {
				cells = append(cells, cell{k.name, k.what, v.name, v.floor, cpu, t.cells[k.name+"/"+v.name]})
			}
		}
	}
	return map[string]any{
		"go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH, "processors": runtime.GOMAXPROCS(0),
		"gubernator": gubernatorVersion, "skipped": t.skipped, "cells": cells,
	}
}
