package main

import (
	"strings"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"github.com/caudal-dev/caudal/internal/rlsbench"
)

func TestRLSMessages(t *testing.T) {
	p := askRLS(1)
	var request pb.RateLimitRequest
	if err := proto.Unmarshal(p.ask(), &request); err != nil || request.Domain != "bench" {
		t.Fatalf("request = %v, %v", &request, err)
	}
	if e := request.Descriptors[0].Entries[0]; e.Key != "api_key" || e.Value != "key-0" {
		t.Errorf("entry = %v, want api_key=key-0", e)
	}
	for code, want := range map[pb.RateLimitResponse_Code]bool{pb.RateLimitResponse_OK: false, pb.RateLimitResponse_OVER_LIMIT: true} {
		answer, err := proto.Marshal(&pb.RateLimitResponse{OverallCode: code, Statuses: []*pb.RateLimitResponse_DescriptorStatus{{Code: code}}})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.denied(answer); err != nil || got != want {
			t.Errorf("denied(%v) = %v, %v; want %v", code, got, err, want)
		}
	}
}

func TestGubernatorAnswers(t *testing.T) {
	p := askGubernator(serviceWork[0])
	for _, c := range []struct {
		status uint64
		text   string
		denied bool
		err    string
	}{{0, "", false, ""}, {1, "", true, ""}, {0, "no peer", false, "no peer"}} {
		one := appendNumber(nil, 1, c.status)
		if c.text != "" {
			one = appendText(one, 5, c.text)
		}
		got, err := p.denied(appendText(nil, 1, one))
		if got != c.denied || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("denied(%+v) = %v, %v", c, got, err)
		}
	}
	if _, err := p.denied([]byte{0xff}); err == nil {
		t.Error("denied(a broken answer) = nil error")
	}
}

func TestServiceTable(t *testing.T) {
	w := serviceWork[0]
	table := &serviceTable{kinds: []work{w}, cells: map[string][]rlsbench.Result{}}
	for i, v := range services[:2] {
		for _, cpu := range []float64{10, 30, 20} {
			table.add(w, v, rlsbench.Result{Requests: 10, OverLimit: 5, ServerCPU: cpu + 5*float64(i)})
		}
	}
	for range 2 {
		table.skip("nginx", &absentError{"nginx is not installed"})
	}
	var out strings.Builder
	if err := table.print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"25.0              15.0 to 35.0   +5.0  1.25x", "50.0%", "nginx is not measured: nginx is not installed\n"} {
		if strings.Count(out.String(), want) < 1 {
			t.Errorf("the table lacks %q:\n%s", want, &out)
		}
	}
	if n := strings.Count(out.String(), "is not measured"); n != 1 {
		t.Errorf("a service that is skipped is told of %d times, want once", n)
	}
}
