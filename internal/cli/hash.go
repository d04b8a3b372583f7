package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/caudal-dev/caudal/identity"
)

func newHash(s Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "hash VALUE",
		Short: "Print the hash by which keys files know an API key, and reports a key",
		Long: "It is the SHA-256 of the value, in hex. With - the value is read from standard input, without the end of its line.\n" +
			"Where the busiest keys are shown, a hidden value stands as # and the first 12 digits. An IPv6 address is counted and hashed\n" +
			"as its network, such as 2001:db8:1:2::/64.",
		Example: `  caudal hash - < key
  caudal hash k-123`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("such as caudal hash k-123", "hash takes one value")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			value := args[0]
			if value == "-" {
				text, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), 1<<20))
				if err != nil {
					return err
				}
				value = strings.TrimRight(string(text), "\r\n")
			}
			if value == "" {
				return usagef("such as caudal hash k-123", "the value is empty")
			}
			_, err := fmt.Fprintln(s.Out, identity.HashKey(value))
			return err
		},
	}
}
