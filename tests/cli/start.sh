# start.sh: runs the commands of a page of docs/start. Sourced after common.sh; $source is the project.

# A folder in which paths of the project work and nothing of it can be written.
start_folder() {
    for name in examples docs data; do
        ln -s "$source/$name" $name
    done
    mkdir docker && cp "$source/docker/Dockerfile" docker/
    PATH=$(dirname "$rueda"):$PATH
}

# start_commands PAGE MARK: the indented lines under each "<!-- MARK -->".
start_commands() {
    awk -v mark="<!-- $2 -->" '
        $0 == mark { on = 1; next }
        on && /^    / { sub(/^    /, ""); print; seen = 1; next }
        on && seen && !/^$/ { on = seen = 0 }' "$source/docs/start/$1.md"
}

# start_run PAGE MARK: the first that fails ends it.
start_run() {
    start_commands "$@" >commands
    [ -s commands ] || fail "$1.md has no commands to test"
    sh -e commands
}
