#!/bin/sh
# MPICH's MPI_Bcast.
#
#   mpich.sh prepare    builds the program into $LAB_BUILD
#   mpich.sh run        broadcasts; the library chooses the algorithm
# Programs are called by Debian's full names, since `mpiexec` may be Open MPI's.
set -u
. ./mpi_common.sh

run() {
    mkdir -p "$mpi_dir"
    mpi_hosts ':1' >"$mpi_dir/hosts"
    # Payload over TCP on the emulated network alone: the ranks share a machine, which UCX would use.
    set -- -genv UCX_TLS tcp,self -genv UCX_NET_DEVICES "$LAB_INTERFACE"
    if mpi_ranks_exceed_cores; then
        set -- "$@" -genv LD_PRELOAD "$build_dir/idle.so"
    fi
    mpi_launch mpiexec.hydra -f "$mpi_dir/hosts" -n "$LAB_NODES" -iface "$LAB_INTERFACE" \
        -launcher rsh -launcher-exec "$PWD/rsh_agent.sh" "$@" "$build_dir/bcast-mpich"
}

case ${1-} in
prepare)
    set -e
    mpi_build mpicc.mpich bcast-mpich -DLEAVE_UNFINISHED
    ;;
run)
    run
    ;;
*)
    echo "usage: mpich.sh prepare | run" >&2
    exit 2
    ;;
esac
