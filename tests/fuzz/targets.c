#include "tests/fuzz/targets.h"

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char json_words[] = "{ } [ ] , : \" null true false 0 1 -1 2 0.5 1e400 -0 "
                                 "9223372036854775808 \\u0000 \\ud800 NaN Infinity [[[[[[[[ \"\"";

const char *fuzz_fixtures;
const struct fuzz_target fuzz_targets[N_FUZZ_TARGETS] = {
    {"safetensors", fuzz_seeds_safetensors, fuzz_run_safetensors, json_words},
    {"model", fuzz_seeds_model, fuzz_run_model, json_words},
    {"checkpoint", fuzz_seeds_checkpoint, fuzz_run_checkpoint, NULL},
    {"gguf", fuzz_seeds_gguf, fuzz_run_gguf, NULL},
    {"tokenizer", fuzz_seeds_tokenizer, fuzz_run_tokenizer, json_words},
    {"sentencepiece", fuzz_seeds_sentencepiece, fuzz_run_sentencepiece, NULL},
    {"template", fuzz_seeds_template, fuzz_run_template,
     "{{ }} {% %} {# #} for in if elif else endif endfor set endset macro endmacro loop namespace "
     "messages message role content tools raise_exception | length join tojson trim - ~ [ ] ( ) . "
     ", : == != < not and or is defined none true ' \" [::-1] range(9) 1 [0] **"},
    {"line", fuzz_seeds_line, fuzz_run_line, json_words},
    {"journal", fuzz_seeds_journal, fuzz_run_journal, "#r #m #c #x 0000000000000000 1 0"},
    {"conversation", fuzz_seeds_conversation, fuzz_run_conversation, json_words},
    {"options", fuzz_seeds_options, fuzz_run_options,
     "-m -p -f -n -c -t -i -o --temp --top-k --chat -cnv --json --regex --stop --eval -1 0 1e9 nan "
     "auto all , = -- - --kv --act --device --devices --gpu-layers --shard 1/2"},
    {"table", fuzz_seeds_table, fuzz_run_table, "\" \"\" , \n \r\n { } {{ }} {a}"},
    {"grammar", fuzz_seeds_grammar, fuzz_run_grammar, json_words},
    {"calls", fuzz_seeds_calls, fuzz_run_calls, json_words},
    {"reasoning", fuzz_seeds_reasoning, fuzz_run_reasoning, "<think> </think> <thin \n"},
    {"stop", fuzz_seeds_stop, fuzz_run_stop, NULL},
};

const char *fuzz_wrong_error(const struct err *e)
{
    size_t n = strnlen(e->msg, sizeof e->msg);
    if (n == 0 || n == sizeof e->msg) return "an error without a message";
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)e->msg[i] < ' ') return "an error of several lines or with controls";
    return err_is_memory(e) ? "more memory than there is" : NULL;
}

const char *fuzz_file(int k, const void *data, size_t n)
{
    static char path[FUZZ_FILES][40];
    static int fd[FUZZ_FILES];
    if (fd[k] <= 0) fd[k] = memfd_create("input", MFD_CLOEXEC);
    if (fd[k] < 0 || ftruncate(fd[k], 0) || pwrite(fd[k], data, n, 0) != (ssize_t)n) abort();
    snprintf(path[k], sizeof path[k], "/proc/self/fd/%d", fd[k]);
    return path[k];
}

static char dir[] = "/dev/shm/opt4gptq-inputs-XXXXXX";
static pid_t owner;

static void remove_dir(void)
{
    if (getpid() != owner) return;
    DIR *d = opendir(dir);
    for (struct dirent *f; d && (f = readdir(d));) unlinkat(dirfd(d), f->d_name, 0);
    if (d) closedir(d);
    rmdir(dir);
}

const char *fuzz_dir(void)
{
    if (!owner) {
        if (!mkdtemp(dir)) abort();
        owner = getpid();
        atexit(remove_dir);
    }
    return dir;
}

void fuzz_seed_file(fuzz_add *add, const char *path, size_t most)
{
    char *p = malloc(most);
    FILE *f = fopen(path, "rb");
    if (!f || !p) {
        fprintf(stderr, "inputs: %s: cannot be read\n", path);
        exit(2);
    }
    add(p, fread(p, 1, most, f));
    fclose(f);
    free(p);
}

int fuzz_is_json(const char *text, size_t n)
{
    json_error_t e;
    if (n < 2 || text[n - 1] != '\n' || memchr(text, '\n', n - 1)) return 0;
    json_t *j = json_loadb(text, n - 1, JSON_ALLOW_NUL, &e);
    json_decref(j);
    return j != NULL;
}
