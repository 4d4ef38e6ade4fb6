# fish completion for harrow. Install as ~/.config/fish/completions/harrow.fish.
# Commands and options are read from harrow's own help, tasks, kinds and nodes from the newest run.

function __harrow_commands
    harrow --help 2>/dev/null | string match -rg '^  ([a-z]+  .*)' | string replace -r '  +' \t
end

function __harrow_command
    set -l words (commandline -opc)
    for word in $words[2..-1]
        string match -q -- '-*' $word; or begin
            echo $word
            return
        end
    end
end

function __harrow_options
    set -l command (__harrow_command)
    test -n "$command"; or return
    harrow $command --help 2>/dev/null | string match -rg '^  (?:-[a-zA-Z] )?(--[a-z-]+(?: [A-Z.a-z]+)?  .*)' |
        string replace -r '( [A-Z.a-z]+)?  +' \t
end

function __harrow_words
    harrow complete $argv[1] -- (commandline -ct) 2>/dev/null
end

complete -c harrow -f
complete -c harrow -n 'test -z (__harrow_command)' -a '(__harrow_commands)'
complete -c harrow -n 'test -n (__harrow_command); and string match -q -- "-*" (commandline -ct)' -a '(__harrow_options)'
complete -c harrow -n 'contains -- (__harrow_command) run array sbatch stage check plan sim replay' -F
complete -c harrow -n 'contains -- (__harrow_command) exec submit' -F
complete -c harrow -n 'contains -- (__harrow_command) join' -a '(__fish_complete_directories)'
complete -c harrow -n 'contains -- (__harrow_command) exec submit' -a '(__fish_complete_command)'
complete -c harrow -l mpi -x -a 'pmix pmi1 none' -n 'contains -- (__harrow_command) exec'
complete -c harrow -n 'contains -- (__harrow_command) logs explain cancel' -a '(__harrow_words tasks)'
complete -c harrow -n '__fish_seen_argument -l run-dir' -l run-dir -x -a '(__fish_complete_directories)'
complete -c harrow -n '__fish_seen_argument -l local-dir' -l local-dir -x -a '(__fish_complete_directories)'
complete -c harrow -n '__fish_seen_argument -l criu' -l criu -r -F
complete -c harrow -l for -r -F -n 'contains -- (__harrow_command) stage'
complete -c harrow -l order -x -a 'auto fifo lifo hrf lifo+hrf rank+hrf cost' -n 'contains -- (__harrow_command) run'
complete -c harrow -l files -x -a 'shared local' -n 'contains -- (__harrow_command) run'
complete -c harrow -l transfer-encryption -x -a 'on off' -n 'contains -- (__harrow_command) run'
complete -c harrow -l mpi-profile -x -a 'none no-fabric' -n 'contains -- (__harrow_command) run'
complete -c harrow -l progress -x -a 'auto plain none' -n 'contains -- (__harrow_command) run'
complete -c harrow -l transfer-encryption -x -a 'on off' -n 'contains -- (__harrow_command) stage'
complete -c harrow -l progress -x -a 'auto plain none' -n 'contains -- (__harrow_command) stage'
complete -c harrow -l order -x -a 'auto fifo lifo hrf lifo+hrf rank+hrf cost' -n 'contains -- (__harrow_command) sim'
complete -c harrow -l files -x -a 'shared local' -n 'contains -- (__harrow_command) sim'
complete -c harrow -l files -x -a 'shared local' -n 'contains -- (__harrow_command) replay'
complete -c harrow -l place -x -a 'files cost-paper cost' -n 'contains -- (__harrow_command) run sim plan replay array'
complete -c harrow -l share -x -a 'all split' -n 'contains -- (__harrow_command) submit'
complete -c harrow -l records -x -a 'lines zero bytes:' -n 'contains -- (__harrow_command) submit'
complete -c harrow -l inputs -x -a 'submit round-robin spread random' -n 'contains -- (__harrow_command) sim'
complete -c harrow -l trigger -x -a 'empty low always' -n 'contains -- (__harrow_command) sim'
complete -c harrow -l amount -x -a 'capacity workers' -n 'contains -- (__harrow_command) sim'
complete -c harrow -l io -x -a 'none model' -n 'contains -- (__harrow_command) sim'
complete -c harrow -l kind -x -a '(__harrow_words kinds)' -n 'contains -- (__harrow_command) report'
complete -c harrow -l node -x -a '(__harrow_words nodes)' -n 'contains -- (__harrow_command) report'
