/* Preloaded into a server, makes its wall clock an hour fast. */
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    int result = (int)syscall(SYS_gettimeofday, now, zone);

    if (result == 0)
        now->tv_sec += 3600;
    return result;
}
