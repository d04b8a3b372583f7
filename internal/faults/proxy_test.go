package faults_test

import (
	"context"
	"strings"
	"testing"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// wire is a connection to a server that can be broken.
type wire struct {
	t     *testing.T
	proxy *toxiproxy.Proxy
}

func newWire(t *testing.T, upstream string) *wire {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := toxiproxy.NewProxy(server, "redis", "127.0.0.1:0", upstream)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return &wire{t, p}
}

func (w *wire) url() string { return "redis://" + w.proxy.Listen }

// breakIt adds a fault, as toxiproxy's JSON describes it.
func (w *wire) breakIt(toxic string) {
	w.t.Helper()
	if _, err := w.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *wire) mend() { w.proxy.Toxics.ResetToxics(context.Background()) }
