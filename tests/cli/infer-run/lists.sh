infer-run --list-archs
infer-run --list-formats
infer-run --list-templates | grep -x chatml
infer-run --version | sed -E 's/ [0-9].*//; s/:.*//'
