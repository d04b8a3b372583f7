package serve

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// eventually waits for what comes a moment after a file was written.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s has not come", what)
		}
	}
}

// TestC52FilesAreWatched: without a signal a change comes in force, a bad one is
// refused and shown, and mending it is a change.
func TestC52FilesAreWatched(t *testing.T) {
	f := start(t, shopRules, Config{}, Deps{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx, nil) }()
	file, first := f.config.Rules[0], f.rules.Load().hash

	rewrite(t, file, strings.Replace(shopRules, "requests_per_unit: 100", "requests_per_unit: 9", 1))
	eventually(t, "the changed rules", func() bool { return f.rules.Load().hash != first })
	second := f.rules.Load().hash
	f.wantCount(`caudal_config_loads_total{result="success"} 2`)
	if log := f.log.String(); !strings.Contains(log, "limit lowered more than tenfold") || !strings.Contains(log, "100 per") || !strings.Contains(log, "9 per") {
		t.Errorf("C84: the log does not warn with both values:\n%s", log)
	}

	rewrite(t, file, strings.Replace(shopRules, "unit: minute", "unit: fortnight", 1))
	eventually(t, "the refusal", func() bool { return f.counts(`caudal_config_loads_total{result="failure"} 1`) })
	if got := f.rules.Load().hash; got != second {
		t.Errorf("after a bad file the rules are %s, want the last good ones, %s", got, second)
	}
	f.readAdmin("/readyz").want(t, "/readyz after a bad file", 200)

	rewrite(t, file, shopRules)
	eventually(t, "the mended rules", func() bool { return f.rules.Load().hash == first })
	f.wantCount(fmt.Sprintf("caudal_config_info{hash=%q} 1", first))
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
}
