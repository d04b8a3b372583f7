package proxytest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/caudal-dev/caudal/rule"
)

// documents reads all of a YAML file.
func documents(t *testing.T, file string) []map[string]any {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	var all []map[string]any
	for {
		var one map[string]any
		err := d.Decode(&one)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, one)
	}
}

func TestShippedYAMLCanBeRead(t *testing.T) {
	read := 0
	err := filepath.WalkDir(deploy, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".yaml" {
			documents(t, path)
			read++
		}
		return err
	})
	if err != nil || read < 4 {
		t.Errorf("read %d files (%v), want at least 4", read, err)
	}
}

func TestKubernetesManifests(t *testing.T) {
	var kinds []string
	for _, d := range documents(t, filepath.Join(deploy, "kubernetes/caudal.yaml")) {
		kind, _ := d["kind"].(string)
		kinds = append(kinds, kind)
		if kind != "ConfigMap" {
			continue
		}
		data, _ := d["data"].(map[string]any)
		for name, text := range data {
			if name == "caudal.yaml" {
				continue
			}
			if _, _, err := rule.Parse(name, []byte(text.(string))); err != nil {
				t.Errorf("rules of the ConfigMap: %v", err)
			}
			if settings, _ := data["caudal.yaml"].(string); !strings.Contains(settings, "/etc/caudal/"+name) {
				t.Errorf("caudal.yaml does not name the rules %s", name)
			}
		}
	}
	slices.Sort(kinds)
	want := []string{"ConfigMap", "Deployment", "HorizontalPodAutoscaler", "PodDisruptionBudget", "Secret", "Service"}
	if !slices.Equal(kinds, want) {
		t.Errorf("kinds = %q, want %q", kinds, want)
	}
}
