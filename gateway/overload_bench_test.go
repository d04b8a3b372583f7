package gateway

import (
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caudal-dev/caudal/httplimit"
	"github.com/caudal-dev/caudal/identity"
)

// BenchmarkOverload offers three times its capacity to an upstream of 8 workers of
// 50 ms behind the gateway, with real sockets and real time: a quarter by each
// priority, or nine tenths of it by one client and the rest by 99. It reports what is
// lost, in percent.
func BenchmarkOverload(b *testing.B) {
	priorities := []string{"/critical", "/high", "/normal", "/low"}
	for _, c := range []struct {
		name string
		call func() (class, path, user string)
	}{
		{"priorities", func() (string, string, string) {
			path := priorities[rand.IntN(4)]
			return path[1:], path, strconv.Itoa(rand.IntN(50))
		}},
		{"clients", func() (string, string, string) {
			if rand.IntN(10) > 0 {
				return "heavy", "/normal", "heavy"
			}
			return "light", "/normal", strconv.Itoa(rand.IntN(99))
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				o := overloaded(b, c.call)
				for class, sum := range o.classes {
					b.ReportMetric(100*(1-float64(sum.done)/float64(sum.offered)), class+"-lost-%")
				}
				if critical := o.classes["critical"]; critical != nil && len(critical.took) > 0 {
					slices.Sort(critical.took)
					b.ReportMetric(float64(critical.took[len(critical.took)*99/100].Milliseconds()), "critical-p99-ms")
				}
				b.ReportMetric(100*(1-o.goodput), "capacity-lost-%")
			}
		})
	}
}

type overload struct {
	classes map[string]*overloadSum
	goodput float64 // share of the time that the workers were at work: a busy machine makes calls longer
}

type overloadSum struct {
	offered, done int
	took          []time.Duration
}

func overloaded(b *testing.B, call func() (class, path, user string)) overload {
	const workers, service, warm, length = 8, 50 * time.Millisecond, 5 * time.Second, 10 * time.Second
	slots := make(chan struct{}, workers)
	var busy atomic.Int64
	upstream := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		slots <- struct{}{}
		begin := time.Now()
		time.Sleep(service)
		busy.Add(int64(time.Since(begin)))
		<-slots
	})
	v := who(b, identity.Options{UserHeader: "X-User"}, "127.0.0.1")
	rules := "domain: d\ndescriptors:\n"
	for _, p := range []string{"critical", "high", "normal", "low"} {
		rules += "  - { key: path, value: /" + p + ", priority: " + p + " }\n"
	}
	front := serve(b, upstream, Options{Limits: limits(b, rules, v, httplimit.Options{}), Identity: v, Shed: Shed{Enabled: true}})
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	defer client.CloseIdleConnections()
	o := overload{classes: map[string]*overloadSum{}}
	const capacity = float64(workers) / (float64(service) / float64(time.Second))
	var mu sync.Mutex
	var calls sync.WaitGroup
	start := time.Now()
	for next := start; next.Sub(start) < warm+length; next = next.Add(time.Duration(rand.ExpFloat64() / (3 * capacity) * float64(time.Second))) {
		time.Sleep(time.Until(next))
		counts := next.Sub(start) >= warm
		class, path, user := call()
		calls.Go(func() {
			begin := time.Now()
			r, _ := http.NewRequest(http.MethodGet, front+path, nil)
			r.Header.Set("X-User", user)
			res, err := client.Do(r)
			if err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
			if !counts {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			sum := o.classes[class]
			if sum == nil {
				sum = &overloadSum{}
				o.classes[class] = sum
			}
			sum.offered++
			if err == nil && res.StatusCode == http.StatusOK {
				sum.done++
				sum.took = append(sum.took, time.Since(begin))
			}
		})
	}
	calls.Wait()
	o.goodput = float64(busy.Load()) / workers / float64(time.Since(start))
	return o
}
