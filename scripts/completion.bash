# bash completion for the Sluice tools. Options come from the tool itself, so that they are those of the installed version.
_sluice() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} tool=${COMP_WORDS[0]} words=''
    [[ $prev == = ]] && prev=${COMP_WORDS[COMP_CWORD-2]}
    [[ $cur == = ]] && cur=
    COMPREPLY=()
    case $prev in
        --isa) words=$("$tool" --version 2>/dev/null | sed -n 's/^kernels://p' | sed 's/([^)]*)//g') ;;
        --kv-type) words='bf16 f32' ;;
        --format) words='text jsonl' ;;
    esac
    if [[ -n $words ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    elif [[ $cur == -* ]]; then
        words=$("$tool" --help 2>/dev/null | grep -E '^ +-' | grep -oE -- '--[a-z][a-z0-9-]*=?' | sed 's/=$//' | sort -u)
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    fi
}
complete -o filenames -F _sluice infer-run infer-eval infer-bench
