package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// defaultConfig is read when it is there and no other file is named.
const defaultConfig = "caudal.yaml"

// settingFlags are the flags of the settings, with what was given to each.
type settingFlags struct {
	given  map[string][]string // by the setting's name
	config string
}

// addSettings gives a command the flags of all settings that have one.
func addSettings(flags *pflag.FlagSet) *settingFlags {
	f := &settingFlags{given: map[string][]string{}}
	flags.SortFlags = false
	for i := range allSettings {
		s := &allSettings[i]
		if !s.flag {
			continue
		}
		flag := flags.VarPF(&flagValue{s, f}, s.flagName(), "", s.help)
		if s.arg == "" {
			flag.NoOptDefVal = "true"
		}
	}
	flags.StringVar(&f.config, "config", "", "the `FILE` of settings (default ./"+defaultConfig+" where it exists)")
	return f
}

// flagValue keeps what is given to a flag until all settings are read.
type flagValue struct {
	s *setting
	f *settingFlags
}

func (v *flagValue) String() string { return "" }

func (v *flagValue) Type() string {
	if v.s.arg == "" {
		return "bool"
	}
	return v.s.arg
}

func (v *flagValue) Set(text string) error {
	texts := []string{text}
	if v.s.list && !v.s.path {
		texts = v.s.split(text)
	}
	if len(texts) == 0 {
		return errors.New("must not be empty: leave it out instead")
	}
	if err := v.s.set(new(settings), slices.Clone(texts)); err != nil {
		return err
	}
	if !v.s.list {
		v.f.given[v.s.name] = nil // the last one counts
	}
	v.f.given[v.s.name] = append(v.f.given[v.s.name], texts...)
	return nil
}

// configure reads the settings: flags win over the environment, which wins over
// the file. It gives the file that it read, empty when there is none.
func configure(f *settingFlags, environ []string) (*settings, string, error) {
	s := &settings{logFormat: "text"}
	file, err := configureInto(s, f, environ)
	if err != nil {
		return nil, "", err
	}
	return s, file, nil
}

func configureInto(s *settings, f *settingFlags, environ []string) (file string, err error) {
	env := caudalEnv(environ)
	if file, err = configPath(f.config, env["CONFIG"]); err != nil {
		return "", err
	}
	if file != "" {
		if err := readConfig(file, s); err != nil {
			return "", err
		}
	}
	if err := applyEnv(s, env); err != nil {
		return "", err
	}
	for name, texts := range f.given {
		if err := findSetting(name).set(s, texts); err != nil {
			return "", usagef("", "--%s %v", findSetting(name).flagName(), err)
		}
	}
	return file, nil
}

func configPath(flag, env string) (string, error) {
	switch {
	case flag != "":
		return flag, nil
	case env != "":
		return env, nil
	}
	_, err := os.Stat(defaultConfig)
	switch {
	case err == nil:
		return defaultConfig, nil
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	}
	return "", fmt.Errorf("cannot read settings: %w", err)
}

// caudalEnv gives the variables of the environment that begin with our prefix,
// without it. An empty one counts as not set: deployments set them so.
func caudalEnv(environ []string) map[string]string {
	env := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if rest, ours := strings.CutPrefix(name, envPrefix); ours && value != "" {
			env[rest] = value
		}
	}
	return env
}

func applyEnv(s *settings, env map[string]string) error {
	for i := range allSettings {
		setting := &allSettings[i]
		value, ok := env[strings.ToUpper(setting.name)]
		if !ok {
			continue
		}
		texts := setting.split(value)
		if len(texts) == 0 {
			continue
		}
		if err := setting.set(s, texts); err != nil {
			return usagef("", "%s %v", setting.envName(), err)
		}
	}
	return nil
}

// mistypedEnv finds variables that are probably mistyped settings. Others are
// left alone: a cluster sets CAUDAL_SERVICE_HOST for a service named caudal.
func mistypedEnv(environ []string) []string {
	var warnings []string
	names := append(settingNames(), "config")
	for name := range caudalEnv(environ) {
		lower := strings.ToLower(name)
		if near := nearest(lower, names); near != "" && near != lower {
			warnings = append(warnings, fmt.Sprintf("%s%s is not read; did you mean %s%s?", envPrefix, name, envPrefix, strings.ToUpper(near)))
		}
	}
	return warnings
}
