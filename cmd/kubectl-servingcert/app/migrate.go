package app

import "github.com/spf13/cobra"

func (p *plugin) migrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:                   "migrate FROM [flags]",
		Short:                 "Move to servingcert from another tool that issues serving certificates.",
		DisableFlagsInUseLine: true,
		Args:                  cobra.ArbitraryArgs,
		ValidArgsFunction:     cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknown(cmd, args)
		},
	}
	cmd.AddCommand(p.migrateServiceCACommand())
	return cmd
}
