/* What the servers of benches share: how a program ends that cannot go on, and a watched port of the loopback. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

static void need(int right, const char *what) {
    if (!right) {
        perror(what);
        exit(1);
    }
}

static struct sockaddr_in loopback(int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return to;
}

/* What comes on a connection is told by `epoll`, and what is sent on it leaves at once. */
static void watch(int epoll, int fd) {
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct epoll_event wanted = {.events = EPOLLIN, .data.fd = fd};
    need(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &wanted) == 0, "epoll_ctl");
}

/* A socket at which so many connections can wait, watched by `epoll`; says that it is ready. */
static int listening(int port, int most, int epoll) {
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = loopback(port);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    need(bind(listener, (struct sockaddr *)&at, sizeof at) == 0, "bind");
    need(listen(listener, most) == 0, "listen");
    watch(epoll, listener);
    puts("ready");
    fflush(stdout);
    return listener;
}
