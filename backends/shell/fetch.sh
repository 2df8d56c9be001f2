# fetch: one file, with its bytes. Request: path, within, limit.
serve_fetch() {
    take_path && path=$value && take_path && within=$value && take && limit=$line || {
        say_no unavailable 'the request was cut'
        return
    }
    need stat head tr readlink && choose_digest || return
    base=-
    if [ -n "$within" ]; then
        climb "$within" || {
            say_no "$why" "$within"
            return
        }
        base=$place
    fi
    locate "$path" 1 "$base" || {
        say_no "$why" "$path"
        return
    }
    if [ "$state" = absent ]; then
        echo A
    else
        emit "$full" "$limit"
    fi
}
answer serve_fetch
