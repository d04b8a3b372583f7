package cli

import (
	"github.com/spf13/cobra"

	"github.com/caudal-dev/caudal/rule"
)

func newSchema(s Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of rule files, for editors",
		Example: `  caudal schema > caudal.schema.json
  # then, as the first line of a rule file:
  # yaml-language-server: $schema=caudal.schema.json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := s.Out.Write(rule.JSONSchema())
			return err
		},
	}
}
