package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caudal-dev/caudal/dashboard"
	"github.com/caudal-dev/caudal/internal/admin"
	"github.com/caudal-dev/caudal/internal/redistest"
)

// event reads the next event of a stream.
func event(t *testing.T, in *bufio.Scanner) (name, data string) {
	t.Helper()
	for in.Scan() {
		switch line := in.Text(); {
		case strings.HasPrefix(line, "event: "):
			name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			data = line[len("data: "):]
		case line == "" && name != "":
			return name, data
		}
	}
	t.Fatalf("the stream ended: %v", in.Err())
	return "", ""
}

// TestStreamBeginsWithHistoryAndEndsWithTheServer also looks at what a snapshot says
// of a rule.
func TestStreamBeginsWithHistoryAndEndsWithTheServer(t *testing.T) {
	f := start(t, operateRules, Config{}, Deps{Version: "v1.2.3"})
	for range 3 {
		f.call("k-1")
	}
	f.metrics.Tick(time.Now())
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.AdminAddr()+"/v1/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client(t, "127.0.0.1").Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("Content-Type = %q", got)
	}
	in := bufio.NewScanner(res.Body)
	in.Buffer(nil, 1<<20)
	if name, _ := event(t, in); name != "history" {
		t.Errorf("the first event is %q, want history", name)
	}
	for range 2 {
		name, data := event(t, in)
		var shot dashboard.Snapshot
		if err := json.Unmarshal([]byte(data), &shot); err != nil || name != "status" {
			t.Fatalf("event %q = %s: %v", name, data, err)
		}
		if len(shot.Rules) != 2 || shot.Rules[0].Words != "2 per clock hour" || !strings.Contains(shot.Rules[0].Worst, "4 in any hour") ||
			shot.State.Name != "ok" || !shot.Enforcement.On || shot.Version != "v1.2.3" || shot.Config.Limits != 2 {
			t.Errorf("snapshot = %s", data)
		}
		if len(shot.Offenders) != 1 || shot.Offenders[0].Rule != "per-key" || shot.Offenders[0].Count != 1 || strings.Contains(data, "k-1") {
			t.Errorf("offenders = %+v, want the denied key, hashed", shot.Offenders)
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for in.Scan() {
		}
	}()
	if err := f.Close(); err != nil {
		t.Errorf("Close with an open stream = %v", err)
	}
	<-ended
}

// TestOperatorsWordReachesAllInstances blocks by one instance and asks another, which
// hears of it within about a second; so does one that is started later.
func TestOperatorsWordReachesAllInstances(t *testing.T) {
	redis := redistest.Start(t)
	config := Config{Store: redis.URL(), StoreTimeout: 5 * time.Second}
	a, b := start(t, operateRules, config, Deps{}), start(t, operateRules, config, Deps{})
	a.operate("POST", "/v1/block", admin.BlockRequest{Key: "api_key=k-1", For: "15m"}, nil)
	soon := func(f *fixture, what string, want int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		for f.call("k-1").StatusCode != want {
			select {
			case <-ctx.Done():
				t.Fatalf("%s does not hold on another instance", what)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	soon(b, "a block", 429)
	soon(start(t, operateRules, config, Deps{}), "a block", 429)
	a.operate("POST", "/v1/enforcement", admin.Enforcement{On: false}, nil)
	soon(b, "enforcement off", 200)
	b.operate("POST", "/v1/enforcement", admin.Enforcement{On: true}, nil)
	soon(a, "enforcement on", 429)
	redis.Kill()
	if got := b.call("k-1").StatusCode; got != 429 {
		t.Errorf("call of a blocked key while Redis is gone = %d, want 429", got)
	}
	if got := b.operate("POST", "/v1/block", admin.BlockRequest{Key: "user=eve", For: "1h"}, nil); got != http.StatusServiceUnavailable {
		t.Errorf("block while Redis is gone = %d, want 503: others would not hear", got)
	}
}
