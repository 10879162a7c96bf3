/* fdatasync as a host under test does it: each one for a file of a session is noted in SYNC_PLACE/notes, and once
   there is a file SYNC_PLACE/allowed, it waits until that has as many bytes as there were notes. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int begun;

int fdatasync(int fd) {
    char path[4096], name[4096];
    const char *place = getenv("SYNC_PLACE");
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(name, path, sizeof path - 2);
    if (place && length > 0) {
        path[length] = '\n';
        path[length + 1] = 0;
        if (strstr(path, "/sessions/")) {
            begun++;
            snprintf(name, sizeof name, "%s/notes", place);
            int notes = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
            if (notes >= 0) {
                if (write(notes, path, length + 1) < 0) abort();
                close(notes);
            }
            struct stat allowed;
            snprintf(name, sizeof name, "%s/allowed", place);
            while (!stat(name, &allowed) && allowed.st_size < begun) usleep(1000);
        }
    }
    return syscall(SYS_fdatasync, fd);
}
