/*
 * Preloaded into MPI ranks when there are more of them than cores: a rank that polls without waiting and finds nothing
 * sleeps for 50 microseconds. Ranks busy-wait by design, each for a core of its own; many on few cores would measure
 * the scheduler. At 100 MB/s 50 microseconds are 5 kB, less than a socket buffer holds by far.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>

#define IDLE_NS 50000
/* The kernel's default slack for timers would add as much again. */
#define TIMER_SLACK_NS 1000

static void idle(void) {
    static __thread int slack_is_set;
    if (!slack_is_set) {
        prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS);
        slack_is_set = 1;
    }
    struct timespec pause = {.tv_sec = 0, .tv_nsec = IDLE_NS};
    nanosleep(&pause, NULL);
}

int poll(struct pollfd *fds, nfds_t count, int timeout) {
    static int (*real)(struct pollfd *, nfds_t, int);
    if (real == NULL) real = (int (*)(struct pollfd *, nfds_t, int))dlsym(RTLD_NEXT, "poll");
    int found = real(fds, count, timeout);
    if (found == 0 && timeout == 0) idle();
    return found;
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int timeout) {
    static int (*real)(int, struct epoll_event *, int, int);
    if (real == NULL) real = (int (*)(int, struct epoll_event *, int, int))dlsym(RTLD_NEXT, "epoll_wait");
    int found = real(epoll, events, most, timeout);
    if (found == 0 && timeout == 0) idle();
    return found;
}
