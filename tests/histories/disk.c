/* A disk with faults, loaded before libc (LD_PRELOAD).
 *
 * For files below one folder: writes that make a file longer fail while the disk is full, syncs are slow, and what a
 * write replaces is recorded until the next sync, so that a loss of power can be played after the process was killed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

struct control {
    volatile uint32_t full;
    volatile uint32_t sync_microseconds;
};

struct record {
    uint32_t type; /* 'w' write, 't' truncate, 's' sync, 'u' unlink */
    uint32_t path_bytes;
    uint64_t offset, old_size, old_bytes;
};

static struct control *control;
static int undo_log = -1;
static char folder[4096];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* 0 if all is well. */
int disk_begin(const char *below, const char *control_file, const char *log_file) {
    int fd = open(control_file, O_RDWR | O_CLOEXEC);
    if (fd < 0) return -1;
    control = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (control == MAP_FAILED) return -1;
    undo_log = open(log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    snprintf(folder, sizeof folder, "%s/", below);
    return undo_log < 0 ? -1 : 0;
}

static int ours(int fd, char *path, size_t size) {
    char link[64];
    if (undo_log < 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, size - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return strncmp(path, folder, strlen(folder)) == 0;
}

static void put(uint32_t type, const char *path, uint64_t offset, uint64_t old_size, const char *old, uint64_t bytes) {
    REAL(write);
    struct record head = {type, (uint32_t)strlen(path), offset, old_size, bytes};
    size_t size = sizeof head + head.path_bytes + bytes;
    char *all = malloc(size);
    memcpy(all, &head, sizeof head);
    memcpy(all + sizeof head, path, head.path_bytes);
    if (bytes) memcpy(all + sizeof head + head.path_bytes, old, bytes);
    pthread_mutex_lock(&lock);
    if (real(undo_log, all, size) != (ssize_t)size) abort();
    pthread_mutex_unlock(&lock);
    free(all);
}

/* Records what [offset, offset + count) holds now; returns how many of the bytes may be written. */
static ssize_t before(int fd, const char *path, off_t offset, size_t count) {
    struct stat found;
    fstat(fd, &found);
    uint64_t size = (uint64_t)found.st_size, start = (uint64_t)offset, end = start + count;
    if (control->full && end > size) {
        if (start >= size) {
            errno = ENOSPC;
            return -1;
        }
        count = size - start;
        end = size;
    }
    uint64_t last = end < size ? end : size, bytes = last > start ? last - start : 0;
    char *old = malloc(bytes + 1);
    if (pread(fd, old, bytes, offset) != (ssize_t)bytes) {
        /* opened for writing only */
        int again = open(path, O_RDONLY | O_CLOEXEC);
        if (again < 0 || pread(again, old, bytes, offset) != (ssize_t)bytes) abort();
        close(again);
    }
    put('w', path, start, size, old, bytes);
    free(old);
    return (ssize_t)count;
}

ssize_t pwrite64(int fd, const void *data, size_t count, off64_t offset) {
    REAL(pwrite64);
    char path[4096];
    if (!ours(fd, path, sizeof path)) return real(fd, data, count, offset);
    ssize_t allowed = before(fd, path, offset, count);
    return allowed < 0 ? -1 : real(fd, data, (size_t)allowed, offset);
}

ssize_t pwrite(int fd, const void *data, size_t count, off_t offset) { return pwrite64(fd, data, count, offset); }

ssize_t write(int fd, const void *data, size_t count) {
    REAL(write);
    char path[4096];
    if (!ours(fd, path, sizeof path)) return real(fd, data, count);
    ssize_t allowed = before(fd, path, lseek(fd, 0, SEEK_CUR), count);
    return allowed < 0 ? -1 : real(fd, data, (size_t)allowed);
}

int ftruncate64(int fd, off64_t length) {
    REAL(ftruncate64);
    char path[4096];
    if (!ours(fd, path, sizeof path)) return real(fd, length);
    struct stat found;
    fstat(fd, &found);
    if (found.st_size > length) {
        size_t bytes = (size_t)(found.st_size - length);
        char *old = malloc(bytes);
        if (pread(fd, old, bytes, length) != (ssize_t)bytes) abort();
        put('t', path, (uint64_t)length, (uint64_t)found.st_size, old, bytes);
        free(old);
    } else if (control->full && found.st_size < length) {
        errno = ENOSPC;
        return -1;
    } else {
        put('t', path, (uint64_t)length, (uint64_t)found.st_size, NULL, 0);
    }
    return real(fd, length);
}

int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

static int synced(int fd, int (*real)(int)) {
    char path[4096];
    int found = ours(fd, path, sizeof path);
    if (found && control->sync_microseconds) usleep(control->sync_microseconds);
    /* The power is lost by an undo log, so a sync need not wait for the real disk. */
    if (!found) return real(fd);
    put('s', path, 0, 0, NULL, 0);
    return 0;
}

int fsync(int fd) {
    REAL(fsync);
    return synced(fd, real);
}

int fdatasync(int fd) {
    REAL(fdatasync);
    return synced(fd, real);
}

int unlink(const char *path) {
    REAL(unlink);
    if (undo_log >= 0 && strncmp(path, folder, strlen(folder)) == 0) put('u', path, 0, 0, NULL, 0);
    return real(path);
}
