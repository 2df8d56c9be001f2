# transact: all changes or none. Request: within, seconds to wait for the lock, count, then per change a line
# "put|delete|move EXPECTED NEWHASH SIZE" (EXPECTED: 64 hex digits, absent or any), its path, for a move its target,
# then the bytes of every put, one after the other.
lock=.agentic-memory.lock

# Every change I lives in numbered variables: verb_I, want_I, hash_I, size_I, dir_I, full_I, into_I (a move's target).
var() { eval "$1=\$$2"; }

refuse() {
    say_no "$2" "$1 $3"
    return 1
}

# read_changes: resolve every path before anything is touched.
read_changes() {
    i=0
    while [ "$i" -lt "$count" ]; do
        take || return 2
        read -r verb want new size <<END
$line
END
        take_path || return 2
        path=$value
        follow=0
        [ "$verb" != put ] || follow=1
        locate "$path" "$follow" "$base" || refuse "$i" "$why" "$path" || return
        eval "verb_$i=\$verb want_$i=\$want hash_$i=\$new size_$i=\$size dir_$i=\$dir full_$i=\$full into_$i= into_dir_$i="
        loose=
        if [ "$state" = link ]; then
            case $(readlink "$full") in /*) ;; *) loose=$dir ;; esac
            # What a link leads to may be compared only when it may be read at all.
            [ "$want" = any ] || locate "$path" 1 "$base" || [ "$why" = dangling ] || refuse "$i" "$why" "$path" || return
        fi
        if [ "$verb" = move ]; then
            take_path || return 2
            locate "$value" 0 "$base" || refuse "$i" "$why" "$value" || return
            [ -z "$loose" ] || [ "$loose" = "$dir" ] || refuse "$i" relative-link "$path" || return
            eval "into_$i=\$full into_dir_$i=\$dir"
        fi
        i=$((i + 1))
    done
}

# make_parents DIR: mkdir -p that remembers what it made and gives it the owner of the directory above.
make_parents() {
    [ ! -d "$1" ] || return 0
    up=${1%/*}
    make_parents "${up:-/}" || return
    complaint=$(mkdir "$1" 2>&1) || [ -d "$1" ] || return
    up=${1%/*}
    chown "$(stat -L -c %u:%g -- "${up:-/}")" "$1" 2>/dev/null
    eval "made_$mades=\$1"
    mades=$((mades + 1))
}

# stage: every new text into a temporary file beside its target, durable, checked against its hash.
stage() {
    i=0
    while [ "$i" -lt "$count" ]; do
        var verb "verb_$i"
        if [ "$verb" != delete ]; then
            var dir "dir_$i"
            [ "$verb" = put ] || var dir "into_dir_$i"
            make_parents "$dir" || refuse "$i" failed "$complaint" || return
        fi
        if [ "$verb" = put ]; then
            var size "size_$i"
            temp=$dir/.agentic-memory.$nonce.$i
            if [ "$size" -gt 0 ]; then
                complaint=$(dd "bs=$size" count=1 iflag=fullblock conv=fsync "of=$temp" 2>&1)
            else
                complaint=$(: 2>&1 >"$temp")
            fi || refuse "$i" failed "$complaint" || return
            var new "hash_$i"
            hash_of "$temp" && [ "$hash" = "$new" ] || refuse "$i" failed "bytes were lost on the way" || return
        fi
        i=$((i + 1))
    done
}

# ---------------------------------------------------------------------------------------------------------------- locks
# A lock is a symlink whose text names its owner: made and told in one step, so it is never seen half made. It keeps
# out everybody who speaks this protocol; flock on the directory, where there is one, keeps out the host's own writers.

name_self() {
    boot=- space=- pid=0
    { read -r boot </proc/sys/kernel/random/boot_id; } 2>/dev/null
    { read -r pid rest </proc/self/stat; } 2>/dev/null
    space=$(readlink /proc/self/ns/pid 2>/dev/null)
    self="agentic-memory $nonce $boot $space $pid"
}

# dead TEXT DIR: whether the owner of that lock is surely gone, or has held it for longer than any change takes.
dead() {
    set -- "$2" $1
    # $1 dir, $2 the word, $3 nonce, $4 boot, $5 namespace, $6 pid
    if [ "$4 $5" = "$boot $space" ] && [ "${6:-0}" -gt 0 ] && [ -d /proc/1 ]; then
        [ -d "/proc/$6" ] || return 0
    fi
    made=$(stat -c %Y -- "$1/$lock" 2>/dev/null) || return 1
    [ $(($(date +%s) - made)) -gt 60 ]
}

# take_lock DIR: 0 held now, 1 somebody else has it, 2 cannot be had at all.
take_lock() {
    complaint=$(ln -s "$self" "$1/$lock" 2>&1) && return 0
    holder=$(readlink "$1/$lock") || {
        # Gone between the two looks, unless the directory refuses every lock.
        [ -d "$1" ] && [ -w "$1" ] && return 1
        return 2
    }
    dead "$holder" "$1" || return 1
    # Only one may clear a dead lock: whoever makes this link looks again before the removal.
    ln -s "$self" "$1/$lock.break" 2>/dev/null || {
        made=$(stat -c %Y -- "$1/$lock.break" 2>/dev/null) && [ $(($(date +%s) - made)) -gt 60 ] && rm -f "$1/$lock.break"
        return 1
    }
    [ "$(readlink "$1/$lock")" != "$holder" ] || {
        set -- "$1" $holder
        recover "$1" "$3"
        rm -f "$1/$lock"
    }
    rm -f "$1/$lock.break"
    return 1
}

# lock_all: the lock of every directory concerned, or none of them; nobody ever waits while holding one.
lock_all() {
    until=$(($(date +%s) + patience))
    while :; do
        i=0
        got=0
        while [ "$i" -lt "$count" ]; do
            for which in dir into_dir; do
                var dir "${which}_$i"
                [ -n "$dir" ] || continue
                [ "$(readlink "$dir/$lock" 2>/dev/null)" != "$self" ] || continue
                # Nothing can be in a directory that is not there; the preconditions will say so.
                [ -d "$dir" ] || continue
                take_lock "$dir"
                case $? in
                0)
                    eval "locked_$got=\$dir"
                    got=$((got + 1))
                    ;;
                1) break 2 ;;
                *)
                    refuse "$i" failed "$complaint"
                    return
                    ;;
                esac
            done
            i=$((i + 1))
        done
        [ "$i" -lt "$count" ] || break
        unlock
        [ "$(date +%s)" -lt "$until" ] || refuse "$i" busy "$dir is locked by another writer" || return
        # Different waiters wait differently long, so that they do not meet again.
        sleep "0.0$((${pid:-0} % 7 + 2))" 2>/dev/null || sleep 1
    done
    command -v flock >/dev/null 2>&1 || return 0
    i=0
    # 5 and 8 have other uses; a transaction over more directories relies on its own locks alone.
    for fd in 3 4 6 7 9; do
        [ "$i" -lt "$got" ] || break
        var dir "locked_$i"
        eval "command exec $fd<\"\$dir\"" 2>/dev/null || break
        # 1 is "somebody else holds it"; anything else means that there is no such lock here.
        while flock -n "$fd" 2>/dev/null; [ $? -eq 1 ]; do
            [ "$(date +%s)" -lt "$until" ] || refuse 0 busy "$dir is locked by another program" || return
            sleep 0.03 2>/dev/null || sleep 1
        done
        i=$((i + 1))
    done
}

unlock() {
    while [ "${got:-0}" -gt 0 ]; do
        got=$((got - 1))
        var dir "locked_$got"
        [ "$(readlink "$dir/$lock" 2>/dev/null)" != "$self" ] || rm -f "$dir/$lock"
    done
}

# ------------------------------------------------------------------------------------------------------------- changing

# await_word: in a shell that serves many calls (loop.sh) the caller says once more that it wants this, when all
# is prepared. One that gave up meanwhile, say because the container was paused, hung up: then nothing is written.
await_word() {
    [ "${agentic_memory_go:-}" = 1 ] || return 0
    printf '\n%s R\n' "$nonce"
    IFS= read -r line <&5 && [ "$line" = "go $nonce" ]
}

# holds FULL EXPECTED SIDE: whether the precondition holds; else the conflict is told, with the side (0 a change's path,
# 1 a move's target) that it is about.
holds() {
    if [ -d "$1" ] && [ ! -L "$1" ]; then
        refuse "$i" directory "$1"
        return
    fi
    if [ -e "$1" ] || [ -L "$1" ]; then
        case $2 in
        any) return 0 ;;
        absent) ;;
        *) hash_of "$1" && [ "$hash" = "$2" ] && return 0 ;;
        esac
    else
        [ "$2" != absent ] || return 0
        [ "$2 $verb" = 'any move' ] || [ "$2" != any ] || return 0
    fi
    conflict "$1" "$3"
}

conflict() {
    # A link shows what it leads to, but never what lies outside.
    if [ -L "$1" ]; then
        locate "$1" 1 "$base" || refuse "$i" "$why" "$1" || return
        set -- "$full" "$2"
    fi
    printf 'C %s %s\n' "$i" "$2"
    if [ -e "$1" ]; then emit "$1" 1000000000; else echo 'x vanished'; fi
    return 1
}

check() {
    i=0
    while [ "$i" -lt "$count" ]; do
        var verb "verb_$i"
        var full "full_$i"
        var want "want_$i"
        var into "into_$i"
        holds "$full" "$want" 0 || return
        [ -z "$into" ] || holds "$into" absent 1 || return
        i=$((i + 1))
    done
    # A writer that was frozen for so long that its lock was cleared must not go on.
    i=0
    while [ "$i" -lt "$got" ]; do
        var dir "locked_$i"
        [ "$(readlink "$dir/$lock")" = "$self" ] || refuse 0 busy "the lock of $dir was lost" || return
        i=$((i + 1))
    done
}

# keep FULL: give what stands there a second name, by which it can be looked at and put back.
keep() {
    old=${1%/*}/.agentic-memory.$nonce.$i.old
    second=1
    ln "$1" "$old" 2>/dev/null || {
        second=0
        complaint=$(cp -pP "$1" "$old" 2>&1)
    }
}

# stands FULL OTHER: whether FULL is still what the caller has seen, going by its second name OTHER. An editor takes no
# locks, so this is asked right before FULL goes. Between the answer and the rename there is time for one process to start.
stands() {
    [ "$want" != any ] || return 0
    hash_of "$2" && [ "$hash" = "$want" ] && { [ "$second" = 0 ] || [ "$1" -ef "$2" ]; }
}

# stood OTHER: whether it was so to the end. A program that had the file open may have written to it meanwhile.
stood() {
    [ "$want" = any ] || [ "$second" = 0 ] || { hash_of "$1" && [ "$hash" = "$want" ]; }
}

# create FROM FULL [stands]: give FROM the name FULL unless something is there, or FROM is no longer what it was: then 3.
create() {
    if complaint=$(ln "$1" "$2" 2>&1); then
        [ -z "${3:-}" ] || stands "$1" "$2" || {
            rm -f "$2"
            return 3
        }
        rm -f "$1"
        return
    fi
    [ ! -e "$2" ] && [ ! -L "$2" ] || return 2
    # No hard links here (or another file system): the next best is a move that does not overwrite.
    complaint=$(mv -n "$1" "$2" 2>&1) && { [ ! -e "$1" ] && [ ! -L "$1" ] || return 2; }
}

apply() {
    i=0
    while [ "$i" -lt "$count" ]; do
        var verb "verb_$i"
        var full "full_$i"
        var want "want_$i"
        var into "into_$i"
        [ "$i" -eq 0 ] || holds "$full" "$want" 0 || return
        case $verb in
        put)
            temp=${full%/*}/.agentic-memory.$nonce.$i
            if [ -e "$full" ]; then
                chown "$(stat -L -c %u:%g -- "$full")" "$temp" 2>/dev/null
                chmod "$(stat -L -c %a -- "$full")" "$temp" 2>/dev/null
                keep "$full" || refuse "$i" failed "$complaint" || return
                stands "$full" "$old" || conflict "$full" 0 || return
                complaint=$(mv -f "$temp" "$full" 2>&1) || refuse "$i" failed "$complaint" || return
                stood "$old" || {
                    var new "hash_$i"
                    ! hash_of "$full" || [ "$hash" != "$new" ] || mv -f "$old" "$full"
                    conflict "$full" 0
                    return
                }
            else
                chown "$(stat -L -c %u:%g -- "${full%/*}/.")" "$temp" 2>/dev/null
                create "$temp" "$full"
                case $? in
                0) ;;
                2)
                    conflict "$full" 0
                    return
                    ;;
                *)
                    refuse "$i" failed "$complaint"
                    return
                    ;;
                esac
            fi
            ;;
        delete)
            if [ -e "$full" ] || [ -L "$full" ]; then
                keep "$full" || refuse "$i" failed "$complaint" || return
                stands "$full" "$old" || conflict "$full" 0 || return
                complaint=$(rm -f "$full" 2>&1) || refuse "$i" failed "$complaint" || return
                stood "$old" || {
                    create "$old" "$full"
                    conflict "$full" 0
                    return
                }
            fi
            ;;
        move)
            second=1
            create "$full" "$into" stands
            case $? in
            0) ;;
            2)
                conflict "$into" 1
                return
                ;;
            3)
                conflict "$full" 0
                return
                ;;
            *)
                refuse "$i" failed "$complaint"
                return
                ;;
            esac
            ;;
        esac
        done=$((i + 1))
        i=$done
    done
}

# write_journal: what is about to change, in every directory concerned, so that whoever clears the lock of a writer that
# was killed half way can undo it. Names with a newline are not journalled: the lines would not be told apart.
write_journal() {
    [ "$count" -gt 1 ] || return 0
    text=
    i=0
    while [ "$i" -lt "$count" ]; do
        var verb "verb_$i"
        var new "hash_$i"
        var full "full_$i"
        var into "into_$i"
        case $full$into in *"$nl"*) return 0 ;; esac
        text=$text$verb\ $new$nl$full$nl$into$nl
        i=$((i + 1))
    done
    i=0
    while [ "$i" -lt "$got" ]; do
        var dir "locked_$i"
        complaint=$(printf '%s' "$text" 2>&1 >"$dir/.agentic-memory.$nonce.journal") || refuse 0 failed "$complaint" || return
        i=$((i + 1))
    done
}

drop_journal() {
    i=0
    while [ "$i" -lt "$got" ]; do
        var dir "locked_$i"
        rm -f "$dir/.agentic-memory.$nonce.journal"
        i=$((i + 1))
    done
}

# recover DIR NONCE: undo what a dead writer left half done. What is not as it left it is somebody's text and stays.
recover() {
    journal=$1/.agentic-memory.$2.journal
    rm -f "$1/.agentic-memory.$2.0"
    [ -f "$journal" ] || rm -f "$1/.agentic-memory.$2.0.old"
    [ -f "$journal" ] || return 0
    n=0
    while read -r verb new && IFS= read -r full && IFS= read -r into; do
        left=${full%/*}/.agentic-memory.$2.$n
        case $verb in
        put)
            # A new text that still waits beside its target was never put there: the same bytes are somebody else's.
            if { [ ! -e "$left" ] || [ "$left" -ef "$full" ]; } && hash_of "$full" && [ "$hash" = "$new" ]; then
                if [ -e "$left.old" ]; then mv -f "$left.old" "$full"; else rm -f "$full"; fi
            fi
            ;;
        delete) [ ! -e "$left.old" ] && [ ! -L "$left.old" ] || [ -e "$full" ] || create "$left.old" "$full" ;;
        move) [ -e "$full" ] || [ ! -e "$into" ] || create "$into" "$full" ;;
        esac
        rm -f "$left" "$left.old"
        n=$((n + 1))
    done <"$journal"
    # All of it is undone: whoever clears the dead lock of another of its directories, later, must not undo what others
    # have written since, which may be the very same bytes.
    while read -r verb new && IFS= read -r full && IFS= read -r into; do
        [ "${full%/*}" = "$1" ] || rm -f "${full%/*}/.agentic-memory.$2.journal"
        [ -z "$into" ] || [ "${into%/*}" = "$1" ] || rm -f "${into%/*}/.agentic-memory.$2.journal"
    done <"$journal"
    rm -f "$journal"
}

# undo: put everything back, the last change first.
undo() {
    while [ "$done" -gt 0 ]; do
        done=$((done - 1))
        i=$done
        var verb "verb_$i"
        var full "full_$i"
        var into "into_$i"
        old=${full%/*}/.agentic-memory.$nonce.$i.old
        case $verb in
        put) if [ -e "$old" ]; then mv -f "$old" "$full"; else rm -f "$full"; fi ;;
        delete) [ ! -e "$old" ] && [ ! -L "$old" ] || create "$old" "$full" ;;
        move) create "$into" "$full" ;;
        esac
    done 2>/dev/null
}

# settle: make the new names durable.
settle() {
    i=0
    set --
    while [ "$i" -lt "$got" ]; do
        var dir "locked_$i"
        set -- "$@" "$dir"
        i=$((i + 1))
    done
    [ $# -eq 0 ] || sync "$@" 2>/dev/null || sync
}

tidy() {
    i=0
    while [ "$i" -lt "$count" ]; do
        var dir "dir_$i"
        [ -z "$dir" ] || rm -f "$dir/.agentic-memory.$nonce.$i" "$dir/.agentic-memory.$nonce.$i.old"
        i=$((i + 1))
    done
    unlock
    [ "$ended" = 1 ] || while [ "$mades" -gt 0 ]; do
        mades=$((mades - 1))
        var dir "made_$mades"
        rmdir "$dir" 2>/dev/null
    done
}

serve_transact() {
    take_path && within=$value && take && patience=$line && take && count=$line || {
        say_no unavailable 'the request was cut'
        return
    }
    need stat readlink ln mv rm mkdir rmdir chmod chown dd date head sync && choose_digest || return
    base=-
    if [ -n "$within" ]; then
        climb "$within" || {
            say_no "$why" "$within"
            return
        }
        base=$place
    fi
    mades=0 got=0 done=0 ended=0
    # Whoever asked may go away; what has begun is finished or undone.
    trap '' HUP INT TERM PIPE
    read_changes && stage && name_self && lock_all && check && write_journal && await_word && {
        if apply; then
            drop_journal
            settle
            ended=1
            echo K
        else
            undo
            false
        fi
    }
    answered=$?
    drop_journal
    [ "$answered" -ne 2 ] || say_no unavailable 'the request was cut'
    tidy
}
answer serve_transact
