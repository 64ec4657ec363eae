/* SPDX-License-Identifier: Apache-2.0 */
/* Prints whether it runs with the rights of another user, and the engines that it finds then. */
#include <holdfast.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>

int main(void)
{
    char *engines = hf_engines();
    printf("secure %lu\n%s", getauxval(AT_SECURE), engines ? engines : "no memory\n");
    free(engines);
    return 0;
}
