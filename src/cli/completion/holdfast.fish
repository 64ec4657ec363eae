# SPDX-License-Identifier: Apache-2.0
# Completion for fish. `holdfast complete` knows the verbs, the options and the locks in use.

function __holdfast_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l answer (holdfast complete -- $words[2..-1] 2>/dev/null)
    switch "$answer[1]"
        case files
            __fish_complete_path (string replace -r -- '^--[^=]*=' '' $words[-1])
        case 'command *'
            set -l first (math 2 + (string replace 'command ' '' $answer[1]))
            complete -C (string join ' ' -- (string escape -- $words[$first..-2]) $words[-1])
        case words
            printf '%s\n' $answer[2..-1]
    end
end

complete -c holdfast -f -a '(__holdfast_complete)'
