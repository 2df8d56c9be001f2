# One shell for many calls. Commands come on standard input: "define NAME LENGTH" with a script's text, and
# "call NAME NONCE LENGTH GO" with a request. After each call a line with the nonce tells that it is over, also when the
# script died on the way. With GO the script asks for a last word, on the same input, before it changes anything.
exec 5<&0
IFS=' '
while read -r word name rest; do
    case $word in
    define)
        text=$(dd "bs=$rest" count=1 iflag=fullblock 2>/dev/null)
        eval "$name() ( $text
)"
        ;;
    call)
        nonce=${rest%% *}
        rest=${rest#* }
        dd "bs=${rest% *}" count=1 iflag=fullblock 2>/dev/null | {
            [ "${rest#* }" = 1 ] && agentic_memory_go=1 || agentic_memory_go=
            "$name"
        }
        printf '\n%s Z\n' "$nonce"
        ;;
    esac
done
