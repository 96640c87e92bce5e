/* The plain loop that `files.py` compares virtlab's operations on files with: the same system calls, and nothing beside them.

   _files DIRECTORY FILES BYTES THREADS       creates files, reads as many, deletes them, each in a random order shared out
                                              among threads; prints nanoseconds of each of the three, from the first that
                                              a thread begins until the last that one has ended, as virtlab's are counted
*/
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { NAME = 17, BLOCK = 4096 };
static int folder;
static size_t files, bytes, threads;
static char (*names)[NAME];
static size_t *order;
static int doing;
static pthread_barrier_t gate;
static uint64_t *began, *ended;

static uint64_t now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

static void need(int right, const char *what) {
    if (!right) {
        perror(what);
        exit(1);
    }
}

static void *work(void *first) {
    size_t most = (bytes / BLOCK + 1) * BLOCK;
    char *octets = aligned_alloc(BLOCK, most);
    need(octets != NULL, "memory");
    memset(octets, 7, most);
    pthread_barrier_wait(&gate);
    began[(size_t)first] = now();
    for (size_t at = (size_t)first; at < files; at += threads) {
        const char *name = names[doing == 0 ? at : order[at]];
        if (doing == 2) {
            need(unlinkat(folder, name, 0) == 0, "unlinkat");
            continue;
        }
        int flags = doing == 0 ? O_CREAT | O_EXCL | O_WRONLY : O_RDONLY;
        int file = openat(folder, name, flags | O_NOFOLLOW | O_CLOEXEC, 0600);
        need(file >= 0, "openat");
        ssize_t moved = doing == 0 ? write(file, octets, bytes) : read(file, octets, most);
        need(moved == (ssize_t)bytes, "read or write");
        need(close(file) == 0, "close");
    }
    ended[(size_t)first] = now();
    free(octets);
    return NULL;
}

int main(int count, char **words) {
    need(count == 5, "four words");
    folder = open(words[1], O_RDONLY | O_DIRECTORY);
    need(folder >= 0, words[1]);
    files = strtoul(words[2], NULL, 10);
    bytes = strtoul(words[3], NULL, 10);
    threads = strtoul(words[4], NULL, 10);
    names = malloc(files * NAME);
    order = malloc(files * sizeof *order);
    began = malloc(threads * sizeof *began);
    ended = malloc(threads * sizeof *ended);
    need(names != NULL && order != NULL && began != NULL && ended != NULL, "memory");
    uint64_t state = 88172645463325252u;
    for (size_t at = 0; at < files; at++) {
        snprintf(names[at], NAME, "%016zx", at);
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        size_t other = state % (at + 1);
        order[at] = order[other];
        order[other] = at;
    }
    for (doing = 0; doing < 3; doing++) {
        pthread_t all[1024];
        pthread_barrier_init(&gate, NULL, (unsigned)threads);
        for (size_t at = 0; at < threads; at++)
            need(pthread_create(&all[at], NULL, work, (void *)at) == 0, "pthread_create");
        uint64_t first = UINT64_MAX, last = 0;
        for (size_t at = 0; at < threads; at++) {
            pthread_join(all[at], NULL);
            first = began[at] < first ? began[at] : first;
            last = ended[at] > last ? ended[at] : last;
        }
        printf("%llu ", (unsigned long long)(last - first));
    }
    printf("\n");
    return 0;
}
