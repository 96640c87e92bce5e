/* The plain loop that `clients.py` compares virtlab's client of request_response with, and the server that both ask.

   _client serve PORT                         answers messages of virtlab's protocol, each with a head of 16 octets
   _client ask PORT CONNECTIONS SECONDS       asks in turns on each connection; prints pairs and nanoseconds of its processor
   _client serve_udp PORT                     answers datagrams of it, by the batch
   _client ask_udp PORT WINDOW SECONDS        has so many requests under way, and sends as many as came; prints the same
*/
#define _GNU_SOURCE
#include "_served.h"
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 16, MOST = 1024, BATCH = 64 };

static uint64_t now(clockid_t clock) {
    struct timespec at;
    clock_gettime(clock, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

static int serve(int port) {
    int epoll = epoll_create1(0), listener = listening(port, MOST, epoll);
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

/* Room for one call of recvmmsg or sendmmsg. */
struct batch {
    char octets[BATCH][HEAD];
    struct sockaddr_in names[BATCH];
    struct iovec vectors[BATCH];
    struct mmsghdr messages[BATCH];
};

static void prepare(struct batch *batch, int named) {
    memset(batch, 0, sizeof *batch);
    for (int place = 0; place < BATCH; place++) {
        batch->vectors[place] = (struct iovec){batch->octets[place], HEAD};
        struct msghdr *header = &batch->messages[place].msg_hdr;
        header->msg_iov = &batch->vectors[place];
        header->msg_iovlen = 1;
        header->msg_name = named ? &batch->names[place] : NULL;
        header->msg_namelen = named ? sizeof batch->names[place] : 0;
    }
}

static int datagrams(void) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0), bytes = 8 << 20;
    need(fd >= 0, "socket");
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes);
    return fd;
}

static void send_all(int fd, struct batch *batch, int count) {
    for (int sent = 0; sent < count;) {
        int taken = sendmmsg(fd, batch->messages + sent, (unsigned)(count - sent), MSG_NOSIGNAL);
        need(taken > 0, "sendmmsg");
        sent += taken;
    }
}

static int serve_udp(int port) {
    static struct batch batch;
    int fd = datagrams();
    struct sockaddr_in at = loopback(port);
    need(bind(fd, (struct sockaddr *)&at, sizeof at) == 0, "bind");
    puts("ready");
    fflush(stdout);
    prepare(&batch, 1);
    for (;;) {
        int count = recvmmsg(fd, batch.messages, BATCH, MSG_WAITFORONE, NULL);
        need(count > 0, "recvmmsg");
        for (int place = 0; place < count; place++)
            memcpy(batch.octets[place] + 4, "rs", 2);
        send_all(fd, &batch, count);
    }
}

static int ask_udp(int port, int window, double seconds) {
    static struct batch out, in;
    int fd = datagrams(), epoll = epoll_create1(0);
    struct sockaddr_in to = loopback(port);
    char request[HEAD] = {0, 0, 0, HEAD, 'r', 'q'};
    uint64_t pairs = 0, end = now(CLOCK_MONOTONIC) + (uint64_t)(seconds * 1e9);
    need(connect(fd, (struct sockaddr *)&to, sizeof to) == 0, "connect");
    struct epoll_event wanted = {.events = EPOLLIN, .data.fd = fd};
    need(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &wanted) == 0, "epoll_ctl");
    prepare(&out, 0);
    prepare(&in, 0);
    for (int place = 0; place < BATCH; place++)
        memcpy(out.octets[place], request, HEAD);
    for (int left = window; left > 0; left -= BATCH)
        send_all(fd, &out, left < BATCH ? left : BATCH);
    uint64_t begun = now(CLOCK_PROCESS_CPUTIME_ID);
    while (now(CLOCK_MONOTONIC) < end) {
        struct epoll_event event;
        if (epoll_wait(epoll, &event, 1, 20) < 1)
            continue;
        int count = recvmmsg(fd, in.messages, BATCH, MSG_DONTWAIT, NULL);
        need(count > 0, "recvmmsg");
        pairs += (uint64_t)count;
        send_all(fd, &out, count);
    }
    printf("%llu %llu\n", (unsigned long long)pairs, (unsigned long long)(now(CLOCK_PROCESS_CPUTIME_ID) - begun));
    return 0;
}

int main(int count, char **words) {
    if (count == 3 && !strcmp(words[1], "serve"))
        return serve(atoi(words[2]));
    if (count == 5 && !strcmp(words[1], "ask"))
        return ask(atoi(words[2]), atoi(words[3]), atof(words[4]));
    if (count == 3 && !strcmp(words[1], "serve_udp"))
        return serve_udp(atoi(words[2]));
    if (count == 5 && !strcmp(words[1], "ask_udp"))
        return ask_udp(atoi(words[2]), atoi(words[3]), atof(words[4]));
    fprintf(stderr, "usage: _client serve[_udp] PORT | ask[_udp] PORT CONNECTIONS SECONDS\n");
    return 2;
}
