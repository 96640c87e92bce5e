/* The plain loop that `clients.py` compares virtlab's client of request_response with, and the server that both ask.

   _client serve PORT                         answers messages of virtlab's protocol, each with a head of 16 octets
   _client ask PORT CONNECTIONS SECONDS       asks in turns on each connection; prints pairs and nanoseconds of its processor
*/
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 16, MOST = 1024 };

static uint64_t now(clockid_t clock) {
    struct timespec at;
    clock_gettime(clock, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

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

static void watch(int epoll, int fd) {
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct epoll_event wanted = {.events = EPOLLIN, .data.fd = fd};
    need(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &wanted) == 0, "epoll_ctl");
}

static int serve(int port) {
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0), epoll = epoll_create1(0);
    struct sockaddr_in at = loopback(port);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    need(bind(listener, (struct sockaddr *)&at, sizeof at) == 0, "bind");
    need(listen(listener, MOST) == 0, "listen");
    watch(epoll, listener);
    puts("ready");
    fflush(stdout);
    for (;;) {
        struct epoll_event events[128];
        int count = epoll_wait(epoll, events, 128, -1);
        for (int place = 0; place < count; place++) {
            int fd = events[place].data.fd;
            char octets[HEAD];
            if (fd == listener) {
                int new = accept(listener, NULL, NULL);
                need(new >= 0, "accept");
                watch(epoll, new);
            } else if (recv(fd, octets, HEAD, 0) == HEAD) {
                memcpy(octets + 4, "rs", 2);
                need(send(fd, octets, HEAD, MSG_NOSIGNAL) == HEAD, "send");
            } else {
                close(fd);
            }
        }
    }
}

static int ask(int port, int connections, double seconds) {
    int epoll = epoll_create1(0);
    struct sockaddr_in to = loopback(port);
    char request[HEAD] = {0, 0, 0, HEAD, 'r', 'q'}, answer[65536];
    uint64_t pairs = 0, end = now(CLOCK_MONOTONIC) + (uint64_t)(seconds * 1e9);
    for (int number = 0; number < connections; number++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        need(connect(fd, (struct sockaddr *)&to, sizeof to) == 0, "connect");
        watch(epoll, fd);
        need(send(fd, request, HEAD, MSG_NOSIGNAL) == HEAD, "send");
    }
    uint64_t begun = now(CLOCK_PROCESS_CPUTIME_ID);
    while (now(CLOCK_MONOTONIC) < end) {
        struct epoll_event events[128];
        int count = epoll_wait(epoll, events, 128, 20);
        for (int place = 0; place < count; place++) {
            need(recv(events[place].data.fd, answer, sizeof answer, 0) == HEAD, "recv");
            pairs++;
            need(send(events[place].data.fd, request, HEAD, MSG_NOSIGNAL) == HEAD, "send");
        }
    }
    printf("%llu %llu\n", (unsigned long long)pairs, (unsigned long long)(now(CLOCK_PROCESS_CPUTIME_ID) - begun));
    return 0;
}

int main(int count, char **words) {
    if (count == 3 && !strcmp(words[1], "serve"))
        return serve(atoi(words[2]));
    if (count == 5 && !strcmp(words[1], "ask"))
        return ask(atoi(words[2]), atoi(words[3]), atof(words[4]));
    fprintf(stderr, "usage: _client serve PORT | ask PORT CONNECTIONS SECONDS\n");
    return 2;
}
