package cli

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/caudal-dev/caudal/identity"
)

// keyPrefix begins the keys that are made here, so that scanners for leaked secrets
// find them.
const keyPrefix = "ck_"

// minPrefix is how many digits of a hash name a key at least.
const minPrefix = 8

func newKeys(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Add, list and revoke the API keys of a keys file",
		Long: `The file is that of the setting keys. It holds the SHA-256 of each key, never the key, one a line; a
server that runs takes a changed file up by itself.`,
		Example: `  caudal keys add --keys keys.jsonl --user acme --plan pro
  caudal keys list --keys keys.jsonl
  caudal keys revoke --keys keys.jsonl 2bb80d53
  caudal keys revoke --keys keys.jsonl --user acme`,
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newKeysAdd(s), newKeysList(s), newKeysRevoke(s))
	return cmd
}

// keysFlags are what all commands about keys have.
type keysFlags struct {
	file, config string
	json         bool
}

func (f *keysFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "keys", "", "the `FILE` of keys (default the setting keys)")
	cmd.Flags().StringVar(&f.config, "config", "", "the `FILE` of settings (default ./"+defaultConfig+" where it exists)")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
}

// name gives the file: that of the flag, or of the settings.
func (f *keysFlags) name(s Streams) (string, error) {
	if f.file != "" {
		return f.file, nil
	}
	settings, _, err := configure(&settingFlags{config: f.config}, s.Environ)
	if err != nil {
		return "", err
	}
	if settings.Who.Keys == "" {
		return "", usagef("name it with --keys FILE, or in caudal.yaml", "no file of keys is set")
	}
	return settings.Who.Keys, nil
}

// keyRow is a key as the commands show it.
type keyRow struct {
	Key  string `json:"key,omitempty"` // only where it was just made
	Hash string `json:"hash"`
	User string `json:"user,omitempty"`
	Plan string `json:"plan,omitempty"`
	// Limits are numbers of its own, by the name of the limit.
	Limits map[string]uint32 `json:"limits,omitempty"`
}

func rowOf(k identity.KeyInfo) keyRow {
	row := keyRow{Hash: k.Hash.String(), User: k.User, Plan: k.Plan}
	for _, l := range k.Limits() {
		if row.Limits == nil {
			row.Limits = map[string]uint32{}
		}
		row.Limits[l.Name] = l.Requests
	}
	return row
}

// limits gives the numbers of its own as --limit takes them.
func (r *keyRow) limits() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(r.Limits)) {
		parts = append(parts, fmt.Sprintf("%s=%d", name, r.Limits[name]))
	}
	return strings.Join(parts, ",")
}

// setLimits reads what --limit was given.
func (r *keyRow) setLimits(given []string) error {
	for _, text := range given {
		name, number, _ := strings.Cut(text, "=")
		n, err := strconv.ParseUint(number, 10, 32)
		if name == "" || err != nil {
			return usagef("such as --limit pro-day=50000", "--limit %q is no name with a number", text)
		}
		if r.Limits == nil {
			r.Limits = map[string]uint32{}
		}
		r.Limits[name] = uint32(n)
	}
	return nil
}

func newKeysAdd(s Streams) *cobra.Command {
	var f keysFlags
	var row keyRow
	var limits []string
	cmd := &cobra.Command{
		Use:   "add",
		Short: "Make a key, write its hash into the file, and print the key once",
		Example: `  caudal keys add --keys keys.jsonl --user acme --plan pro
  caudal keys add --keys keys.jsonl --user acme --plan pro --limit pro-day=50000
  caudal keys add --keys keys.jsonl --user acme --hash "$(caudal hash - < key)"   # a key that exists`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := row.setLimits(limits); err != nil {
				return err
			}
			return addKey(s, &f, row)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&row.User, "user", "", "`WHO` has the key")
	cmd.Flags().StringVar(&row.Plan, "plan", "", "which `PLAN` they have")
	cmd.Flags().StringSliceVar(&limits, "limit", nil, "another requests_per_unit for a limit of the rules, as `NAME=N`; may be repeated")
	cmd.Flags().StringVar(&row.Hash, "hash", "", "the `HASH` of a key that exists, instead of a new one")
	return cmd
}

func addKey(s Streams, f *keysFlags, row keyRow) error {
	name, err := f.name(s)
	if err != nil {
		return err
	}
	if row.Hash == "" {
		secret := make([]byte, 32)
		_, _ = rand.Read(secret) // never fails
		row.Key = keyPrefix + base64.RawURLEncoding.EncodeToString(secret)
		row.Hash = identity.HashKey(row.Key).String()
	}
	row.Hash = strings.ToLower(row.Hash)
	line, err := json.Marshal(keyRow{Hash: row.Hash, User: row.User, Plan: row.Plan, Limits: row.Limits})
	if err != nil {
		return err
	}
	if err := checkKeys("the new key", line); err != nil {
		return err
	}
	err = editKeys(name, func(text []byte) ([]byte, error) {
		if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
			text = append(text, '\n')
		}
		return append(append(text, line...), '\n'), nil
	})
	if err != nil {
		return err
	}
	switch {
	case f.json:
		return printJSON(s.Out, row)
	case row.Key == "":
		_, err = fmt.Fprintf(s.Out, "added %s\n", row.Hash)
		return err
	}
	if _, err := fmt.Fprintln(s.Out, row.Key); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Err, "note: the key is shown this once; the file holds its hash %s\n", row.Hash)
	return err
}

func newKeysList(s Streams) *cobra.Command {
	var f keysFlags
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the keys of the file by their hashes",
		Example: `  caudal keys list --keys keys.jsonl`,
		Args:    noArgs,
		RunE:    func(*cobra.Command, []string) error { return listKeys(s, &f) },
	}
	f.add(cmd)
	return cmd
}

func listKeys(s Streams, f *keysFlags) error {
	name, err := f.name(s)
	if err != nil {
		return err
	}
	keys, err := identity.LoadKeys(name)
	if err != nil {
		return keysFailed(err)
	}
	rows := make([]keyRow, keys.Len())
	for i := range rows {
		rows[i] = rowOf(keys.At(i))
	}
	if f.json {
		return printJSON(s.Out, rows)
	}
	out := bufio.NewWriter(s.Out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "HASH\tUSER\tPLAN\tLIMITS")
	for _, r := range rows {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", r.Hash[:2*minPrefix], orDash(r.User), orDash(r.Plan), orDash(r.limits()))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s\n", plural(len(rows), "key"))
	return out.Flush()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func newKeysRevoke(s Streams) *cobra.Command {
	var f keysFlags
	var user string
	cmd := &cobra.Command{
		Use:   "revoke [HASH]",
		Short: "Take a key, or all keys of a user, out of the file",
		Long:  fmt.Sprintf("HASH is the hash of the key or its beginning, at least %d digits; caudal hash prints that of a key.", minPrefix),
		Example: `  caudal keys revoke --keys keys.jsonl 2bb80d53
  caudal keys revoke --keys keys.jsonl --user acme`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || (len(args) == 1) == (user != "") {
				return usagef("such as caudal keys revoke 2bb80d53, or --user acme", "name one key by its hash, or a user")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return revokeKeys(s, &f, "user "+user, func(k keyRow) bool { return k.User == user }, false)
			}
			prefix := strings.ToLower(args[0])
			if len(prefix) < minPrefix {
				return usagef("see caudal keys list", "%q is too short: %d digits of the hash at least", args[0], minPrefix)
			}
			return revokeKeys(s, &f, args[0], func(k keyRow) bool { return strings.HasPrefix(k.Hash, prefix) }, true)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&user, "user", "", "revoke all keys of `WHO`")
	return cmd
}

// revokeKeys takes the lines of the keys that are meant out of the file, and leaves
// all others as they are.
func revokeKeys(s Streams, f *keysFlags, what string, meant func(keyRow) bool, one bool) error {
	name, err := f.name(s)
	if err != nil {
		return err
	}
	gone := []keyRow{}
	err = editKeys(name, func(text []byte) ([]byte, error) {
		kept := make([]byte, 0, len(text))
		for line := range bytes.Lines(text) {
			keys, err := identity.ReadKeys(name, bytes.NewReader(line))
			if err != nil {
				return nil, keysFailed(err)
			}
			if keys.Len() == 1 && meant(rowOf(keys.At(0))) {
				gone = append(gone, rowOf(keys.At(0)))
				continue
			}
			kept = append(kept, line...)
		}
		switch {
		case len(gone) == 0:
			return nil, &failure{exitFailed, fmt.Sprintf("no key of %s holds %s", name, what), "see caudal keys list"}
		case one && len(gone) > 1:
			return nil, &failure{exitFailed, fmt.Sprintf("%d keys begin with %s", len(gone), what), "write more of the hash"}
		}
		return kept, nil
	})
	if err != nil {
		return err
	}
	if f.json {
		return printJSON(s.Out, gone)
	}
	for _, k := range gone {
		if _, err := fmt.Fprintf(s.Out, "revoked %s\n", k.Hash); err != nil {
			return err
		}
	}
	return nil
}
