# bash completion for harrow. Install as /usr/share/bash-completion/completions/harrow, or source it.
# Commands and options are read from harrow's own help, tasks, kinds and nodes from the newest run.

_harrow_commands() {
  "$1" --help 2>/dev/null | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p'
  echo help
}

_harrow_options() {
  "$1" "$2" --help 2>/dev/null | sed -n 's/^  \(-[a-zA-Z] \)\{0,1\}\(--[a-z-]*\).*/\1\2/p' | tr ' ' '\n'
  echo --help
}

# Offers the lines of standard input that begin with $1, quoted for the shell.
_harrow_offer() {
  local line quoted
  while IFS= read -r line; do
    [[ -n $line && $line == "$1"* ]] || continue
    printf -v quoted %q "$line"
    COMPREPLY+=("$quoted")
  done
}

_harrow() {
  local harrow=$1 cur word prev command='' run_dir=() i
  # The word up to the cursor as typed: bash itself also breaks words at : and =.
  word=${COMP_LINE:0:COMP_POINT}
  word=${word##*[[:blank:]]}
  cur=$2
  prev=$3
  word=${word//\\/}
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${COMP_WORDS[i]} in
      --run-dir) run_dir=(--run-dir "${COMP_WORDS[i + 1]}") ;;
      -*) ;;
      *) [[ -z $command && ${COMP_WORDS[i - 1]} != --run-dir ]] && command=${COMP_WORDS[i]} ;;
    esac
  done
  if [[ -z $command ]]; then
    if [[ $cur == -* ]]; then
      _harrow_offer "$cur" <<<$'--help\n--version'
    else
      _harrow_offer "$cur" < <(_harrow_commands "$harrow")
    fi
    return
  fi
  case $prev in
    --run-dir | --costs-from | --dir | --times | --local-dir)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -d -- "$cur")
      return ;;
    --lines | --plot | --cluster | --for | --criu)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -f -- "$cur")
      return ;;
    --order) _harrow_offer "$cur" <<<$'auto\nfifo\nlifo\nhrf\nlifo+hrf\nrank+hrf\ncost'; return ;;
    --files) _harrow_offer "$cur" <<<$'shared\nlocal'; return ;;
    --place) _harrow_offer "$cur" <<<$'files\ncost-paper\ncost'; return ;;
    --share) _harrow_offer "$cur" <<<$'all\nsplit'; return ;;
    --records) _harrow_offer "$cur" <<<$'lines\nzero\nbytes:'; return ;;
    --inputs) _harrow_offer "$cur" <<<$'submit\nround-robin\nspread\nrandom'; return ;;
    --trigger) _harrow_offer "$cur" <<<$'empty\nlow\nalways'; return ;;
    --amount) _harrow_offer "$cur" <<<$'capacity\nworkers'; return ;;
    --transfer-encryption) _harrow_offer "$cur" <<<$'on\noff'; return ;;
    --mpi-profile) _harrow_offer "$cur" <<<$'none\nno-fabric'; return ;;
    --progress) _harrow_offer "$cur" <<<$'auto\nplain\nnone'; return ;;
    --kind) _harrow_offer "$word" < <("$harrow" complete "${run_dir[@]}" kinds -- "$word" 2>/dev/null) ;;
    --node) _harrow_offer "$word" < <("$harrow" complete "${run_dir[@]}" nodes -- "$word" 2>/dev/null) ;;
    --target) _harrow_offer "$word" < <("$harrow" complete "${run_dir[@]}" tasks -- "$word" 2>/dev/null) ;;
    --io) _harrow_offer "$cur" <<<$'none\nmodel'; return ;;
    --mpi) _harrow_offer "$cur" <<<$'pmix\npmi1\nnone'; return ;;
    --retries | --max-failures | --max-running | --slots | --local-nodes | --tail | --slowest | --output-limit | --nodes | --max-nodes | --task-time | --seed | --run-time | --time-scale | --size-scale | --local-limit | --alpha | --report-period | -n | --ranks | -c | --cores | --gpus | -N | --memory | -t | --time) return ;;
    *)
      if [[ $cur == -* ]]; then
        _harrow_offer "$cur" < <(_harrow_options "$harrow" "$command")
        return
      fi
      case $command in
        run | array | sbatch | stage | check | plan | sim | replay)
          compopt -o filenames
          mapfile -t COMPREPLY < <(compgen -f -- "$cur")
          return ;;
        exec | submit)
          compopt -o filenames
          mapfile -t COMPREPLY < <(compgen -c -- "$cur"; compgen -f -- "$cur")
          return ;;
        join)
          compopt -o filenames
          mapfile -t COMPREPLY < <(compgen -d -- "$cur")
          return ;;
        logs | explain | cancel)
          _harrow_offer "$word" < <("$harrow" complete "${run_dir[@]}" tasks -- "$word" 2>/dev/null) ;;
        help) _harrow_offer "$cur" < <(_harrow_commands "$harrow") ;;
      esac ;;
  esac
  # What lies before the last : or = is on the line already.
  if [[ $word == *[:=]* ]]; then
    local before=${word%"${word##*[:=]}"}
    COMPREPLY=("${COMPREPLY[@]#"$before"}")
  fi
}

complete -F _harrow harrow
