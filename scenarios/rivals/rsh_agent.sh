#!/bin/sh
# The remote shell that MPI launchers call to start their daemon on a node: rsh_agent.sh HOST COMMAND...
# The command is a line for a shell, as it would be for ssh. Each node has a TMPDIR of its own: Open MPI's daemons name
# their files by the host, and here all have the same; two of them in one file crash each other.
# The daemon's process id is left in $LAB_DIR/mpi, so that the script that started the launcher can end it.
host=$1
shift
export TMPDIR="$LAB_DIR/mpi/$host"
mkdir -p "$TMPDIR"
# shellcheck disable=SC2086,SC2016
exec $LAB_ENTER "$host" sh -c 'echo $$ >"$LAB_DIR/mpi/daemon.$1"; eval "exec $2"' rsh_agent "$host" "$*"
