# What every request shares: reading its head, naming errors, finding the real place of a path, framing one file.
# Runs on dash, bash and BusyBox ash. The protocol is described in shell.py.
LC_ALL=C TZ=UTC0
export LC_ALL TZ
unset CDPATH
IFS=' 	
'
set -f +e +u
PATH=${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}
export PATH
nl='
'
stamp='%d %i %s %Y %y %z'

# take: the next line of the request, byte for byte.
take() { IFS= read -r line || { line=; return 1; }; }

# take_path: a path; "e" marks one with a newline in it, spelt in octal.
take_path() {
    take || return 1
    case $line in
    e*)
        value=$(printf '%b_' "${line#e}")
        value=${value%_}
        ;;
    *) value=${line#p} ;;
    esac
}

# say_no KIND DETAIL: why there is no other answer.
say_no() { printf 'X %s %s\n' "$1" "${2%%"$nl"*}"; }

need() {
    for tool; do
        command -v "$tool" >/dev/null 2>&1 || {
            say_no unavailable "the sandbox has no '$tool' command"
            return 1
        }
    done
}

# choose_digest: the words of a command that prints SHA-256 in sha256sum's form.
choose_digest() {
    if command -v sha256sum >/dev/null 2>&1; then
        digest=sha256sum
    elif command -v busybox >/dev/null 2>&1 && busybox sha256sum </dev/null >/dev/null 2>&1; then
        digest='busybox sha256sum'
    elif command -v shasum >/dev/null 2>&1; then
        digest='shasum -a 256'
    else
        say_no unavailable "the sandbox has no command for SHA-256 (sha256sum or shasum)"
        return 1
    fi
}

# hash_of FILE: 64 hex digits into $hash; fails when it cannot be read.
hash_of() {
    hash=$($digest <"$1" 2>/dev/null) || return 1
    hash=${hash%% *}
    [ ${#hash} -eq 64 ]
}

# climb PATH: the physical place of a directory that may not be there yet, into $place (without a trailing slash)
# and what is missing of it into $missing. Fails, with $why, when it cannot be told.
climb() {
    up=$1
    missing=
    until [ -e "$up" ] || [ -L "$up" ]; do
        missing=/${up##*/}$missing
        up=${up%/*}
        [ -n "$up" ] || {
            up=/
            break
        }
    done
    if [ ! -d "$up" ]; then
        if [ -e "$up" ]; then why=not-a-directory; elif [ -L "$up" ]; then why=dangling; else why=cannot-tell; fi
        return 1
    fi
    # An unsearchable directory makes everything below look absent: that is "cannot tell".
    cd -P "$up" 2>/dev/null && [ -x . ] || {
        why=denied
        return 1
    }
    place=$PWD$missing
    case $PWD in /) place=$missing ;; esac
}

# locate PATH FOLLOW BASE: the real $dir and $name of PATH and their join $full. Follows a final symlink when FOLLOW
# is 1. BASE is the physical directory to stay in ("-": anywhere). Fails with $why.
locate() {
    target=$1
    hops=0
    while :; do
        name=${target##*/}
        parent=${target%/*}
        [ -n "$name" ] || {
            why=directory
            return 1
        }
        climb "${parent:-/}" || return 1
        dir=$place
        full=$dir/$name
        # Being outside is said first: what lies there is nobody's business.
        case $3 in
        -) ;;
        *)
            case $dir/ in
            "$3"/*) ;;
            *)
                why=outside
                return 1
                ;;
            esac
            ;;
        esac
        [ -L "$full" ] && [ "$2" = 1 ] || break
        hops=$((hops + 1))
        [ "$hops" -le 40 ] || {
            why=loop
            return 1
        }
        link=$(readlink "$full" && echo x) || {
            why=cannot-tell
            return 1
        }
        link=${link%"${nl}x"}
        case $link in
        /*) target=$link ;;
        *) target=$dir/$link ;;
        esac
        case ${target##*/} in
        '' | . | ..)
            why=directory
            return 1
            ;;
        esac
    done
    if [ -n "$missing" ]; then
        state=absent
    elif [ -L "$full" ] && [ "$2" != 1 ]; then
        state=link
    elif [ -f "$full" ]; then
        state=file
    elif [ -d "$full" ]; then
        why=directory
        return 1
    elif [ -e "$full" ]; then
        why=special
        return 1
    else
        state=absent
    fi
    [ "$state" != absent ] || [ "$hops" -eq 0 ] || {
        why=dangling
        return 1
    }
}

# emit FILE LIMIT: "f COUNT HASH STAMP", then exactly COUNT bytes; or why not. A file that changes meanwhile still gives
# COUNT bytes, so that the framing holds: the hash then tells.
emit() {
    if [ ! -e "$1" ]; then
        echo 'x vanished'
        return
    fi
    # Opened once, so that hash and bytes are of one file even while others keep replacing it.
    if [ -f "$1" ] && [ -r "$1" ] && { command exec 8<"$1"; } 2>/dev/null; then
        [ ! -e /proc/self/fd/8 ] || set -- /proc/self/fd/8 "$2"
    fi
    if [ ! -r "$1" ] || ! mark=$(stat -L -c "$stamp" -- "$1" 2>/dev/null); then
        echo 'x unreadable'
        return
    fi
    set -- "$1" "$2" $mark
    if [ "$5" -gt "$2" ]; then
        echo "x too_large $5"
        return
    fi
    hash_of "$1" || {
        echo 'x unreadable'
        return
    }
    printf 'f %s %s %s\n' "$5" "$hash" "$mark"
    { head -c "$5" <"$1"; head -c "$5" </dev/zero; } 2>/dev/null | head -c "$5"
}

# answer COMMAND: run it between the two sentinels, as text where the way back is text only.
answer() {
    take && nonce=$line && take && encoding=$line && take_path && workdir=$value || exit 64
    if [ "$encoding" = base64 ]; then
        between "$1" | base64
    else
        between "$1"
    fi
}

between() {
    printf '\n%s S\n' "$nonce"
    if [ -n "$workdir" ] && ! cd -P "$workdir" 2>/dev/null; then
        say_no unavailable "the working directory $workdir is not there or cannot be entered"
    else
        "$1"
    fi
    printf '\n%s E\n' "$nonce"
}
