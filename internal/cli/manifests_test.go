package cli

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/caudal-dev/caudal/rule"
)

// podSpec is what the tests look at of a manifest.
type podSpec struct {
	Kind string
	Data map[string]string // of a ConfigMap
	Spec struct {
		Ports    []struct{ Name, TargetPort string } // of a Service
		Template struct {
			Spec struct {
				TerminationGracePeriodSeconds int `yaml:"terminationGracePeriodSeconds"`
				Containers                    []struct {
					Args  []string
					Ports []struct {
						Name          string
						ContainerPort int `yaml:"containerPort"`
					}
					ReadinessProbe probe `yaml:"readinessProbe"`
					LivenessProbe  probe `yaml:"livenessProbe"`
					VolumeMounts   []struct{ Name, MountPath string }
				}
				Volumes []struct{ Name string }
			}
		}
	}
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

// manifests reads the file for Kubernetes, by kind.
func manifests(t *testing.T) map[string]podSpec {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "kubernetes", "caudal.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]podSpec{}
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var one podSpec
		if err := d.Decode(&one); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[one.Kind] = one
	}
}

// TestKubernetesSettingsAreKnown: what the ConfigMap sets are settings of this
// version, its rules load without a warning, and the addresses are the container's
// ports.
func TestKubernetesSettingsAreKnown(t *testing.T) {
	all := manifests(t)
	container := all["Deployment"].Spec.Template.Spec.Containers[0]
	file := all["ConfigMap"].Data["caudal.yaml"]
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("0123456789abcdef0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := configureWith(t, regexp.MustCompile(`secret_file: \S+`).ReplaceAllString(file, "secret_file: "+secret), nil)
	if err != nil {
		t.Fatalf("caudal.yaml of the ConfigMap: %v", err)
	}
	if want := []string{"serve", "--config", "/etc/caudal/caudal.yaml"}; !slices.Equal(container.Args, want) {
		t.Errorf("args = %q, want %q", container.Args, want)
	}
	for _, path := range s.Rules {
		text, ok := all["ConfigMap"].Data[filepath.Base(path)]
		if !ok {
			t.Errorf("caudal.yaml names the rules %s, which are not in the ConfigMap", path)
		}
		_, warnings, err := rule.Options{ForAttributes: true}.Parse(path, []byte(text))
		if err != nil || len(warnings) > 0 {
			t.Errorf("rules %s: %v, warnings %v", path, err, warnings)
		}
	}
	ports := map[string]string{}
	for _, p := range container.Ports {
		ports[p.Name] = ":" + strconv.Itoa(p.ContainerPort)
	}
	c := s.Config
	grpc := ":8081" // the default
	if len(c.RLS.Listen) > 0 {
		grpc = c.RLS.Listen[0]
	}
	if len(c.HTTPListen) != 1 || ports["http"] != c.HTTPListen[0] || ports["admin"] != c.AdminListen || ports["grpc"] != grpc {
		t.Errorf("the container has the ports %v, and caudal.yaml listens on %v, %v and %v", ports, c.HTTPListen, c.AdminListen, grpc)
	}
	for _, p := range all["Service"].Spec.Ports {
		if ports[p.Name] == "" {
			t.Errorf("the Service names the port %s, which the container has not", p.Name)
		}
	}
}

// TestKubernetesProbesAreAnswered asks a server what the kubelet would ask.
func TestKubernetesProbesAreAnswered(t *testing.T) {
	pod := manifests(t)["Deployment"].Spec.Template.Spec
	container := pod.Containers[0]
	p := launch(t, "serve", "--limit", "100/m", "--http-listen", "127.0.0.1:0", "--grpc-listen", "off")
	admin := p.waitFor(t, `msg=listening listener=admin address=(\S+)`)
	for name, probe := range map[string]probe{"readiness": container.ReadinessProbe, "liveness": container.LivenessProbe} {
		if probe.HTTPGet.Port != "admin" {
			t.Errorf("the %s probe asks the port %q, want admin", name, probe.HTTPGet.Port)
		}
		res, err := http.Get("http://" + admin + probe.HTTPGet.Path)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("the %s probe asks %s: %s, want 200", name, probe.HTTPGet.Path, res.Status)
		}
	}
	// Draining takes up to shutdown_timeout, 25 s.
	if pod.TerminationGracePeriodSeconds <= 25 {
		t.Errorf("terminationGracePeriodSeconds = %d, want more than the 25 s of shutdown_timeout", pod.TerminationGracePeriodSeconds)
	}
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	for _, m := range container.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("the container mounts %s, which is no volume of the pod", m.Name)
		}
	}
	p.end(t)
}

// TestUnitFileStartsWhatThereIs: the command and flags of the systemd unit are known.
func TestUnitFileStartsWhatThereIs(t *testing.T) {
	unit, err := os.ReadFile(filepath.Join("..", "..", "deploy", "systemd", "caudal.service"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/caudal (.*)$`).FindSubmatch(unit)
	if m == nil {
		t.Fatal("the unit starts no /usr/local/bin/caudal")
	}
	cmd, rest, err := newRoot(Streams{}).Find(strings.Fields(string(m[1])))
	if err != nil || cmd.Name() != "serve" {
		t.Fatalf("the unit runs %q: %v", m[1], err)
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Errorf("the unit runs %q: %v", m[1], err)
	}
}

// TestEnvoyRulesInBothModes loads the rules beside the configurations for Envoy as
// usual and as the reference service reads them: they must mean the same.
func TestEnvoyRulesInBothModes(t *testing.T) {
	var limits [2]string
	for i, o := range []rule.Options{{}, {CompatEnvoy: true}} {
		set, warnings, err := o.Load(filepath.Join("..", "..", "deploy", "envoy", "rules.yaml"))
		if err != nil {
			t.Fatalf("Load with %+v: %v", o, err)
		}
		for _, w := range warnings {
			if w.Level == rule.LevelWarning {
				t.Errorf("Load with %+v warns: %+v", o, w)
			}
		}
		for _, l := range set.Domains()[0].Limits() {
			limits[i] += l.Compiled.Limit().String() + "\n"
		}
	}
	if limits[0] != limits[1] {
		t.Errorf("limits under --compat envoy are\n%swant those without it\n%s", limits[1], limits[0])
	}
}
