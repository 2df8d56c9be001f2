# list: what AgentScope's tools ask. Request: path, then "entry" (what is there), "children" or "below" (every file).
# Answer: "A", or lines "E raw-mode size mtime name" ("Q": the name in octal), "-" for what cannot be told.
entries='
nl="
"
for f do
    case $f in
    *"$nl"*) printf "Q %s %s\n" "$(stat -L -c "%f %s %Y" -- "$f" 2>/dev/null || echo "- - -")" \
        "$(printf %s "$f" | od -An -v -to1 | tr -d "\n" | sed "s/  */\\\\0/g")" ;;
    *) stat -L -c "E %f %s %Y %n" -- "$f" 2>/dev/null || printf "E - - - %s\n" "$f" ;;
    esac
done
'
# All ordinary names at once, and one by one only when some of them cannot be followed.
batch='out=$(stat -L -c "E %f %s %Y %n" -- "$@" 2>/dev/null) && printf "%s\n" "$out" || exec sh -c "$entries" sh "$@"'

serve_list() {
    take_path && path=$value && take && mode=$line || {
        say_no unavailable 'the request was cut'
        return
    }
    need find stat od sed tr || return
    name=${path##*/}
    parent=${path%/*}
    if ! climb "${parent:-/}"; then
        [ "$why" != not-a-directory ] && [ "$why" != dangling ] || { echo A; return; }
        say_no "$why" "$path"
        return
    fi
    [ -z "$missing" ] || { echo A; return; }
    [ -e "./$name" ] || [ -L "./$name" ] || { echo A; return; }
    export entries
    if [ "$mode" = entry ]; then
        [ -e "./$name" ] || { echo A; return; }
        sh -c "$entries" sh "./$name"
        return
    fi
    [ -d "./$name" ] || { echo A; return; }
    cd -P "./$name" 2>/dev/null && [ -r . ] || { say_no denied "$path"; return; }
    echo L
    if [ "$mode" = children ]; then
        find . ! -name . -prune ! -path "*$nl*" -exec sh -c "$batch" sh {} + -o \
            ! -name . -prune -exec sh -c "$entries" sh {} +
    else
        find . -type f ! -path "*$nl*" -exec sh -c "$batch" sh {} + -o -type f -exec sh -c "$entries" sh {} +
    fi 2>/dev/null || say_no denied "$path"
}
answer serve_list
