package proxytest

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"
)

// TestBenchGateway runs the command as people do: it starts two processes of the
// same program.
func TestBenchGateway(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "bench", "gateway", "--callers", "2", "--rounds", "1", "--slice", "50ms", "--rate", "200", "--json")
	cmd.Env = append(os.Environ(), asMain+"=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("bench gateway: %v", err)
	}
	var results []struct {
		Loop, Target             string
		Requests, Denied, Errors int
	}
	if err := json.Unmarshal(out, &results); err != nil || len(results) != 4 {
		t.Fatalf("bench gateway printed %s (%v), want 4 results", out, err)
	}
	for i, want := range []string{"closed no", "closed yes", "open no", "open yes"} {
		r := results[i]
		if r.Loop+" "+r.Target != want || r.Requests == 0 || r.Denied != 0 || r.Errors != 0 {
			t.Errorf("result %d = %+v, want %s with requests, none denied or failed", i, r, want)
		}
	}
}
