/* The server that `objects.py` lets virtlab's client of objects ask: it keeps what it is given in memory, and does
   nothing else.

   _objects PORT STORED       answers a PUT with the status STORED, GET and HEAD with what was put, DELETE with 204,
                              and what is not there with 404, over HTTP/1.1 on connections that stay

   One thread serves all connections. Nobody is asked for a token, and no signature is checked. A client sends its next
   request when it has the answer to the last one. Whatever is no such request ends its connection.
*/
#define _GNU_SOURCE
#include "_served.h"
#include <string.h>
#include <strings.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MOST = 4096, EVENTS = 128, ROOM = 128 << 10, PATH = 256, BUCKETS = 1 << 17 };

struct object {
    struct object *next;
    char path[PATH];
    size_t bytes;
    char octets[];
};

/* A request as it comes. */
struct connection {
    size_t came;
    char octets[ROOM + 1];
};

static struct object *buckets[BUCKETS];
static struct connection *connections[MOST];

/* Where an object is named: NULL stands there where it is not kept. */
static struct object **place(const char *path) {
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (const char *at = path; *at; at++)
        hash = (hash ^ (uint8_t)*at) * 1099511628211u;
    struct object **found = &buckets[(hash ^ hash >> 32) % BUCKETS];
    while (*found && strcmp((*found)->path, path))
        found = &(*found)->next;
    return found;
}

static void forget(struct object **found) {
    struct object *gone = *found;
    *found = gone->next;
    free(gone);
}

static void keep(const char *path, const char *octets, size_t bytes) {
    struct object **found = place(path), *new = malloc(sizeof *new + bytes);
    need(new != NULL, "malloc");
    if (*found)
        forget(found);
    strcpy(new->path, path);
    new->bytes = bytes;
    memcpy(new->octets, octets, bytes);
    new->next = *found;
    *found = new;
}

/* Whether an answer went away as a whole. */
static int answer(int fd, int status, size_t length, const char *octets, size_t bytes) {
    char head[128];
    int head_bytes = snprintf(head, sizeof head, "HTTP/1.1 %d Answer\r\nContent-Length: %zu\r\n\r\n", status, length);
    if (status == 204)
        head_bytes = snprintf(head, sizeof head, "HTTP/1.1 204 Answer\r\n\r\n");
    struct iovec parts[2] = {{head, (size_t)head_bytes}, {(char *)octets, bytes}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = bytes > 0 ? 2 : 1};
    return sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)(head_bytes + bytes);
}

/* Does a request that is whole; whether its connection goes on. */
static int serve(int fd, int stored, const char *method, const char *path, const char *body, size_t bytes) {
    if (!strcmp(method, "PUT")) {
        keep(path, body, bytes);
        return answer(fd, stored, 0, NULL, 0);
    }
    struct object **found = place(path);
    if (*found == NULL)
        return answer(fd, 404, 0, NULL, 0);
    if (!strcmp(method, "GET"))
        return answer(fd, 200, (*found)->bytes, (*found)->octets, (*found)->bytes);
    if (!strcmp(method, "HEAD"))
        return answer(fd, 200, (*found)->bytes, NULL, 0);
    if (strcmp(method, "DELETE"))
        return 0;
    forget(found);
    return answer(fd, 204, 0, NULL, 0);
}

/* Takes what came on a connection; whether it goes on. */
static int take(int fd, struct connection *from, int stored) {
    ssize_t count = recv(fd, from->octets + from->came, ROOM - from->came, 0);
    if (count <= 0)
        return 0;
    from->came += (size_t)count;
    from->octets[from->came] = 0;
    char *end = memmem(from->octets, from->came, "\r\n\r\n", 4);
    if (end == NULL)
        return from->came < ROOM;
    size_t head = (size_t)(end - from->octets) + 4, bytes = 0;
    for (char *line = from->octets; line < end; line = (char *)memchr(line, '\n', (size_t)(end + 2 - line)) + 1)
        if (!strncasecmp(line, "Content-Length:", 15))
            bytes = strtoul(line + 15, NULL, 10);
    if (bytes > ROOM - head)
        return 0;
    if (from->came < head + bytes)
        return 1;
    char method[8], path[PATH];
    if (from->came > head + bytes || sscanf(from->octets, "%7s %255s HTTP/1.1", method, path) != 2)
        return 0;
    from->came = 0;
    return serve(fd, stored, method, path, from->octets + head, bytes);
}

int main(int count, char **words) {
    if (count != 3) {
        fprintf(stderr, "usage: _objects PORT STORED\n");
        return 2;
    }
    int stored = atoi(words[2]), epoll = epoll_create1(0), listener = listening(atoi(words[1]), MOST, epoll);
    for (;;) {
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(epoll, events, EVENTS, -1);
        for (int number = 0; number < ready; number++) {
            int fd = events[number].data.fd;
            if (fd == listener) {
                int new = accept(listener, NULL, NULL);
                need(new >= 0 && new < MOST, "accept");
                connections[new] = malloc(sizeof *connections[new]);
                need(connections[new] != NULL, "malloc");
                connections[new]->came = 0;
                watch(epoll, new);
            } else if (!take(fd, connections[fd], stored)) {
                free(connections[fd]);
                close(fd);
            }
        }
    }
}
