/* SPDX-License-Identifier: Apache-2.0 */
/* Counts in a file that nothing protects but a lock: counter URL NAME FILE ROUNDS [write]. */
#include <holdfast.h>

#include <stdio.h>
#include <stdlib.h>

static int add_one(const char *path)
{
    FILE *file = fopen(path, "r+");
    long count = -1;

    if (!file)
        return -1;
    if (fscanf(file, "%ld", &count) == 1) {
        rewind(file);
        fprintf(file, "%ld\n", count + 1);
    }
    return fclose(file) == 0 && count >= 0 ? 0 : -1;
}

static int complain(const char *what)
{
    fprintf(stderr, "counter: %s: %s\n", what, hf_last_error()->text);
    return 1;
}

int main(int argc, char **argv)
{
    hf_client *client;
    hf_hold *hold;
    hf_lock_options options = HF_LOCK_OPTIONS_INIT;

    if (argc == 6)
        options.mode = HF_WRITE;
    if (argc < 5 || argc > 6 || hf_open(&client, argv[1], NULL) != HF_OK)
        return complain("cannot open");
    for (long left = strtol(argv[4], NULL, 10); left > 0; left--) {
        if (hf_lock(client, argv[2], HF_FOREVER, &options, &hold) != HF_OK)
            return complain("cannot lock");
        if (add_one(argv[3]) != 0)
            return complain("cannot count");
        if (hf_unlock(hold) != HF_OK)
            return complain("cannot unlock");
    }
    hf_close(client);
    return 0;
}
