/* SPDX-License-Identifier: Apache-2.0 */
/* no_close_range ENOSYS|EPERM COMMAND...: runs the command where close_range(2) fails: a kernel
 * before 5.9, or a container whose system call filter does not know it. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CANNOT_FILTER 99

int main(int argc, char **argv)
{
    unsigned error = argc > 2 && strcmp(argv[1], "EPERM") == 0 ? EPERM : ENOSYS;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

    if (argc < 3 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return CANNOT_FILTER;
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return CANNOT_FILTER;
}
