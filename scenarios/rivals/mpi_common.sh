# What Open MPI and MPICH have in common; sourced by openmpi.sh and mpich.sh.

# Built programs go here, a directory that the lab makes; never beside the sources.
build_dir=${LAB_BUILD:?is not set: a directory for built programs}

# mpi_build COMPILER PROGRAM [FLAG...]: builds the broadcast program and the idle shim. Each appears complete or not at
# all, so that several may build at once.
mpi_build() {
    compiler=$1
    program=$2
    shift 2
    mkdir -p "$build_dir"
    "$compiler" -O2 -Wall "$@" -o "$build_dir/$program.$$" bcast.c
    gcc -O2 -Wall -shared -fPIC -o "$build_dir/idle.so.$$" idle.c -ldl
    mv "$build_dir/$program.$$" "$build_dir/$program"
    mv "$build_dir/idle.so.$$" "$build_dir/idle.so"
}

# Do the ranks need the idle shim? The network's emulation wants a core of its own, too.
mpi_ranks_exceed_cores() {
    [ "$LAB_NODES" -ge "$(nproc)" ]
}

# mpi_hosts SUFFIX: the nodes' addresses in the order of ranks, one a line.
mpi_hosts() {
    sort -n "$LAB_HOSTS" | while read -r _rank _node _cluster address; do
        echo "$address$1"
    done
}

# mpi_end: ends the launcher and what it has started, by the ids that rsh_agent.sh left in $mpi_dir. The launcher has
# two seconds to do it properly.
mpi_end() {
    trap '' TERM INT
    kill -TERM "$launcher" 2>/dev/null
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        kill -0 "$launcher" 2>/dev/null || break
        sleep 0.1
    done
    mpi_sweep
    kill -KILL "$launcher" 2>/dev/null
}

# mpi_sweep: ends daemons that are still there. An id counts only while the process still works for this very run.
mpi_sweep() {
    for file in "$mpi_dir"/daemon.*; do
        [ -e "$file" ] || continue
        read -r daemon <"$file"
        if grep -qzxF "LAB_DIR=$LAB_DIR" "/proc/$daemon/environ" 2>/dev/null; then
            kill -KILL "$daemon" 2>/dev/null
        fi
    done
}

# mpi_launch COMMAND...: runs the launcher, and sees to it that nothing survives it or this script.
mpi_launch() {
    "$@" </dev/null &
    launcher=$!
    trap 'mpi_end; exit 143' TERM INT
    wait "$launcher"
    status=$?
    mpi_sweep
    return "$status"
}

mpi_dir=$LAB_DIR/mpi
