# snapshot: every file below a root. Request: root, name pattern, directories count as obstacles (1|0), hidden (1|0),
# limit in bytes, mode (fast|careful), digest of the listing the caller holds or "-", then what it has: "since" and a
# time, for "all that changed before is known", or "-", and then its known lines.

# What find runs for a batch of names, by kind ($0). One fork per batch, not per file, wherever names are ordinary.
walk='
nl="
"
spell() { printf %s "$1" | od -An -v -to1 | tr -d "\n" | sed "s/  */\\\\0/g"; }
obstacle() { case $2 in *"$nl"*) printf "P %s %s\n" "$1" "$(spell "$2")" ;; *) printf "O %s %s\n" "$1" "$2" ;; esac; }
case $0 in
files)
    echo "N $#"
    stat -c "F $stamp %n" -- "$@" 2>/dev/null && exit
    # Some went away meanwhile: "!" takes the batch back, and it is told again one by one.
    echo "!"
    for f do
        if out=$(stat -c "F $stamp %n" -- "$f" 2>/dev/null); then printf "N 1\n%s\n" "$out"
        elif [ -e "$f" ] || [ -L "$f" ]; then obstacle unreadable "$f"
        fi
    done
    ;;
folders)
    for f do
        # The root itself: proof for the reader that what find collects arrives here.
        [ "$f" != . ] || { echo R; continue; }
        [ -r "$f" ] && [ -x "$f" ] || [ ! -e "$f" ] || { echo D; obstacle unreadable "$f"; }
    done
    ;;
lookalikes) for f do obstacle directory "$f"; done ;;
links)
    for f do
        if [ -d "$f" ]; then
            real=$(cd -P "$f" 2>/dev/null && printf "%s/x" "$PWD") || { obstacle unreadable "$f"; continue; }
            case $real in
            "$base"/*) [ "$folders" = 0 ] || case ${f##*/} in $pattern) obstacle directory "$f" ;; esac ;;
            *) obstacle outside "$f" ;;
            esac
            continue
        fi
        case ${f##*/} in $pattern) ;; *) continue ;; esac
        if [ -e "$f" ]; then
            real=$(readlink -f "$f" && echo x) || { obstacle unreadable "$f"; continue; }
            case $real in "$base"/*) ;; *) obstacle outside "$f"; continue ;; esac
            if [ ! -f "$f" ]; then obstacle special "$f"
            elif [ ! -r "$f" ]; then obstacle unreadable "$f"
            else
                case $f in
                *"$nl"*) printf "G %s %s\n" "$(stat -L -c "$stamp" "$f")" "$(spell "$f")" ;;
                *) out=$(stat -L -c "F $stamp %n" "$f" 2>/dev/null) && printf "N 1\n%s\n" "$out" ;;
                esac
            fi
        else
            case $(stat -L "$f" 2>&1) in
            *"ymbolic link"*" loop"* | *"evels of symbolic"*) obstacle loop "$f" ;;
            *"No such file"* | *"Not a directory"*) obstacle dangling "$f" ;;
            *) [ ! -L "$f" ] || obstacle unreadable "$f" ;;
            esac
        fi
    done
    ;;
others)
    for f do
        if [ ! -f "$f" ]; then obstacle special "$f"
        elif [ ! -r "$f" ]; then obstacle unreadable "$f"
        else printf "G %s %s\n" "$(stat -c "$stamp" "$f")" "$(spell "$f")"
        fi
    done
    ;;
esac
'

# list: what is below the current directory, one line each, find's own complaints among them; $rc is find's.
list() {
    if [ "$hidden" = 1 ]; then
        set -- -name '.agentic-memory.*' -prune -o
    else
        set -- ! -name . -name '.*' -prune -o
    fi
    # No parentheses: BusyBox forgets what an "-exec ... +" inside them has collected.
    listing=$(
        find . "$@" \
            -type d ! -name . -name "$lookalike" -prune -exec sh -c "$walk" lookalikes {} + -o \
            -type d -exec sh -c "$walk" folders {} + -o \
            -type f -name "$pattern" ! -path "*$nl*" -exec sh -c "$walk" files {} + -o \
            -type l -exec sh -c "$walk" links {} + -o \
            ! -type d ! -type l -name "$pattern" -exec sh -c "$walk" others {} + 2>&1
    )
    rc=$?
}

# unknown: the names (one a line) whose bytes the caller lacks.
unknown() {
    if [ "$since" != - ]; then
        printf '%s\n' "$listing" | awk -v since="$since" -v limit="$limit" '
            /^F / && $9 " " $10 >= since && $4 + 0 <= limit { print substr($0, index($0, " ./") + 1) }'
    elif [ "$filter" = 1 ]; then
        { cat; printf '%s\n' "$nonce -" "$listing"; } | awk -v mark="$nonce -" -v limit="$limit" '
            !seen { if ($0 == mark) seen = 1; else known[$0] = 1; next }
            /^F / && !($0 in known) && $4 + 0 <= limit { print substr($0, index($0, " ./") + 1) }'
    else
        cat >/dev/null
        printf '%s\n' "$listing" | sed -n 's/^F [^/]* \(\.\/.*\)$/\1/p'
    fi
}

serve_snapshot() {
    take_path && root=$value && take_path && pattern=$value && take && folders=$line && take && hidden=$line &&
        take && limit=$line && take && mode=$line && take && token=$line && take && since=${line#since } || {
        say_no unavailable 'the request was cut'
        return
    }
    need find stat xargs cat sed tr od head date readlink && choose_digest || return
    climb "$root" || {
        say_no unavailable "$root: $why"
        return
    }
    if [ -n "$missing" ]; then
        echo A
        return
    fi
    [ -r . ] || {
        say_no unavailable "$root: denied"
        return
    }
    case $PWD in /) base= ;; *) base=$PWD ;; esac
    lookalike=$pattern
    # Without a suffix every name is wanted, and a directory is just a directory.
    [ "$folders" = 1 ] || lookalike=.
    export pattern folders base stamp
    filter=0
    command -v awk >/dev/null 2>&1 && filter=1
    [ "$filter" = 1 ] || since=-
    # The clock is read before anything is looked at: what is older than that cannot change unseen later.
    now=$(date +%s)
    list
    printf 'T %s %s %s\n' "$now" "$rc" "$filter"
    if [ "$token" != - ]; then
        seen=$(printf '%s\n' "$listing" | $digest)
        if [ "${seen%% *}" = "$token" ]; then
            echo =
            return
        fi
    fi
    printf '%s\n%s G\n' "$listing" "$nonce"
    case $listing in
    "G "* | *"${nl}G "*)
        printf '%s\n' "$listing" | sed -n 's/^G .* //p' | while IFS= read -r line; do
            file=$(printf '%b_' "$line")
            emit "${file%_}" "$limit"
        done
        ;;
    esac
    names=$(unknown)
    printf '\n%s H\n' "$nonce"
    if [ "$mode" = careful ]; then
        printf '%s C\n' "$nonce"
        printf '%s\n' "$names" | while IFS= read -r file; do [ -z "$file" ] || emit "$file" "$limit"; done
    else
        [ -z "$names" ] || printf '%s\n' "$names" | tr '\n' '\0' | xargs -0 $digest -- 2>/dev/null ||
            printf '%s\n' "$names" | while IFS= read -r file; do
                [ -r "$file" ] || [ ! -e "$file" ] || printf 'U %s\n' "$file"
            done
        printf '%s C\n' "$nonce"
        [ -z "$names" ] || printf '%s\n' "$names" | tr '\n' '\0' | xargs -0 cat -- 2>/dev/null
    fi
}
answer serve_snapshot
