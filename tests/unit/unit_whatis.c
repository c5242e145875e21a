/* unit_whatis.c: whatever is given in place of a model file or a checkpoint is identified, with the
 * command for it. */
#include "core/model/whatis.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[] = "/tmp/opt4gptq-whatis-XXXXXX";

static void path_of(char out[1024], const char *name)
{
    snprintf(out, 1024, "%s%s%s", root, *name ? "/" : "", name);
}

/* Writes a file below root and makes its directories. */
static void put(const char *name, const void *data, size_t n)
{
    char path[1024];
    path_of(path, name);
    for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); *p++ = '/') {
        *p = 0;
        mkdir(path, 0777);
    }
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void put_text(const char *name, const char *text) { put(name, text, strlen(text)); }

/* A safetensors file of one tensor of four bytes. */
static void put_tensor(const char *name, const char *tensor, const char *metadata)
{
    char file[1024];
    int n = snprintf(file + 8, sizeof file - 8,
                     "{%s\"%s\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
                     metadata, tensor);
    uint64_t header = (uint64_t)n;
    memcpy(file, &header, 8);
    memset(file + 8 + n, 0, 4);
    put(name, file, 8 + (size_t)n + 4);
}

static const char ours[] = "\"__metadata__\":{\"opt4gptq.version\":\"1\"},";

static int make(void **state)
{
    (void)state;
    char from[1024];
    if (!mkdtemp(root)) return -1;
    put_text("x.gguf", "GGUF\3.......and the rest of it");
    put_text("noname", "GGUF\3.......and the rest of it");
    put("old.bin", "\x80\x02}q\0.", 6);
    put_text("zip.bin", "PK\3\4................archive/data.pkl");
    put_text("packed.gz", "\x1f\x8b\x08 and so on");
    put_text("page.safetensors", "<!DOCTYPE html><html>");
    put_text("lfs.safetensors", "version https://git-lfs.github.com/spec/v1\n");
    put_text("empty", "");
    put_text("words", "only words that are long enough");
    put_text("gptq/config.json", "{\"quantization_config\":{\"quant_method\":\"gptq\"}}");
    put_tensor("gptq/model.safetensors", "x.qweight", "");
    put_text("old gptq/config.json", "{}");
    put_text("old gptq/quantize_config.json", "{}");
    put_tensor("old gptq/model.safetensors", "x.qweight", "");
    put_text("awq/config.json", "{\"quantization_config\":{\"quant_method\":\"awq\"}}");
    put_text("done/config.json", "{}");
    put_tensor("done/m.safetensors", "x", ours);
    put_tensor("only/m.safetensors", "x", ours);
    put_tensor("part/model.safetensors", "x.qweight", "");
    put_text("lora/adapter_config.json", "{}");
    put_tensor("lora/adapter_model.safetensors", "a.lora_A.weight", "");
    put_text("ggufs/b.gguf", "GGUF");
    put_text("ggufs/a.gguf", "GGUF");
    put_text("ggufs/README.md", "x");
    put_text("hub/models--a--b/refs/main", "0123\n");
    put_text("hub/models--a--b/snapshots/0123/config.json", "{}");
    put_tensor("hub/models--a--b/snapshots/0123/model.safetensors", "x.qweight", "");
    put_text("hub/models--a--b/snapshots/4567/config.json", "{}");
    put_text("models--c--d/snapshots/89/d.gguf", "GGUF");
    put_text("models--e--f/blobs/1", "x");
    put_text("models--e--f/snapshots/.x", "x");
    put_text("outer/inner/config.json", "{}");
    put_text("meta/params.json", "{}");
    put_text("meta/consolidated.00.pth", "x");
    put_text("torn/README.md", "x");
    path_of(from, "torn/config.json");
    if (symlink("../../blobs/none", from)) return -1;
    path_of(from, "nothing");
    if (mkdir(from, 0777)) return -1;
    path_of(from, "fifo");
    return mkfifo(from, 0666);
}

static int clean(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command) != 0;
}

/* The message (%R is root) for each of the two that can be expected; NULL: none. */
static const struct {
    const char *name, *model, *checkpoint;
} cases[] = {
    {"x.gguf", "is a GGUF file", "is a GGUF file"},
    {"noname", "is a GGUF file", "is a GGUF file"},
    {"old.bin", "is a Python pickle", "is a Python pickle"},
    {"zip.bin", "is a Python pickle", "is a Python pickle"},
    {"packed.gz", "is packed with gzip", "is packed with gzip"},
    {"page.safetensors", "is a web page", "is a web page"},
    {"lfs.safetensors", "git lfs pull", "git lfs pull"},
    {"empty", "is an empty file", "is an empty file"},
    {"words", NULL, NULL},
    {"none", NULL, NULL},
    {"fifo", "is a FIFO, not a model file", "is a FIFO, not a checkpoint directory"},
    {"gptq",
     "is the directory of a GPTQ checkpoint; convert it first: opt4gptq-convert %R/gptq "
     "OUT.safetensors",
     NULL},
    {"gptq//", "opt4gptq-convert %R/gptq OUT.safetensors", NULL},
    {"gptq/model.safetensors",
     "is a file of a GPTQ checkpoint; convert its directory first: opt4gptq-convert %R/gptq OUT",
     "convert its directory: opt4gptq-convert %R/gptq OUT"},
    {"gptq/config.json", "opt4gptq-convert %R/gptq OUT", "opt4gptq-convert %R/gptq OUT"},
    {"old gptq",
     "a GPTQ checkpoint; convert it first: opt4gptq-convert '%R/old gptq' OUT.safetensors", NULL},
    {"awq", "is the directory of an AWQ checkpoint", NULL},
    {"done", "the model file in it is -m %R/done/m.safetensors", NULL},
    {"done/m.safetensors", NULL, "is a model file already: opt4gptq-run -m %R/done/m.safetensors"},
    {"only", "the model file in it is -m %R/only/m.safetensors",
     "opt4gptq-run -m %R/only/m.safetensors"},
    {"part", "holds model.safetensors but no config.json",
     "holds model.safetensors but no config.json"},
    {"part/model.safetensors", "no config.json beside it", "no config.json beside it"},
    {"lora", "is a LoRA adapter", "is a LoRA adapter"},
    {"lora/adapter_model.safetensors", "is a LoRA adapter", "is a LoRA adapter"},
    {"ggufs", "holds GGUF files (a.gguf), of which one can be converted", "a.gguf OUT.safetensors"},
    {"hub/models--a--b", "opt4gptq-convert %R/hub/models--a--b/snapshots/0123 OUT.safetensors",
     "opt4gptq-convert %R/hub/models--a--b/snapshots/0123 OUT.safetensors"},
    {"hub", "opt4gptq-convert %R/hub/models--a--b/snapshots/0123 OUT",
     "opt4gptq-convert %R/hub/models--a--b/snapshots/0123 OUT"},
    {"models--c--d", "holds GGUF files (d.gguf)", "holds GGUF files (d.gguf)"},
    {"models--e--f", "without a snapshot", "without a snapshot"},
    {"outer", "opt4gptq-convert %R/outer/inner OUT", "opt4gptq-convert %R/outer/inner OUT"},
    {"meta", "Meta's own format", "Meta's own format"},
    {"torn", "config.json is a link to a file that is not there",
     "config.json is a link to a file that is not there"},
    {"nothing", "is an empty directory", "is an empty directory"},
};

static void test_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int w = 0; w < 2; w++) {
            const char *want = w ? cases[i].checkpoint : cases[i].model;
            char path[1024], says[1024] = {0};
            struct err e;
            err_set(&e, "as it was");
            path_of(path, cases[i].name);
            for (const char *p = want; p && *p; p++)
                if (!strncmp(p, "%R", 2)) strcat(says, root), p++;
                else says[strlen(says)] = *p;
            int known = whatis(path, w ? WHATIS_CHECKPOINT : WHATIS_MODEL, &e);
            if (known != !!want || (want ? !strstr(e.msg, says) : strcmp(e.msg, "as it was") != 0))
                fail_msg("%s, wanted %d: %d, '%s', not '%s'", cases[i].name, w, known, e.msg, says);
            assert_null(strchr(e.msg, '\n'));
            if (known) assert_int_equal(strncmp(e.msg, root, strlen(root)), 0);
        }
}

/* A lack of memory stays a lack of memory. */
static void test_memory(void **state)
{
    (void)state;
    char path[1024];
    struct err e;
    path_of(path, "x.gguf");
    err_memory(&e);
    assert_int_equal(whatis(path, WHATIS_MODEL, &e), 0);
    assert_true(err_is_memory(&e));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all), cmocka_unit_test(test_memory)};
    return cmocka_run_group_tests(tests, make, clean);
}
