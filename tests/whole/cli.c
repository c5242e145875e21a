/* cli.c: what a person meets at the command line of both programs: exit codes, one clear line per
 * error, text and ids, stop strings, the same answer for any threads and chunks. Works on
 * models/demo; usage: cli BUILD_DIR. */
#include "cli/llama_names.h"
#include "cli/vllm_names.h"
#include "tests/whole/cli_tools.h"

#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char emulated_bin[512], file_a[600];

static void errors(void)
{
    char long_ids[8192] = "1", text_file[700];
    snprintf(text_file, sizeof text_file, "%s/text", dir);
    write_file(text_file, "not a model, only text that is long enough", 42);
    for (int i = 1; i < 1024; i++) strcat(long_ids, ",1");
    ERROR(2, "no model", "-p", "x");
    ERROR(2, "no prompt", "-m", model);
    ERROR(2, "exclude", "-m", model, "-p", "x", "-f", "y");
    ERROR(2, "--mem needs -i", "-m", model, "-p", "x", "--mem", "1G");
    ERROR(2, "--act bf16", "-m", model, "-p", "x", "--act", "bf16");
    ERROR(2, "--backend amd", "-m", model, "-p", "x", "--backend", "amd");
    /* a build without kernels says that first */
    struct process version;
    RUN(&version, NULL, "--version");
    ERROR(1, strstr(version.out, "backends: hip") ? "/nonexistent/lib" : "without clang-19", "-m",
          model, "-p", "x", "--backend", "hip", "--hip-library", "/nonexistent/lib");
    ERROR(1, strstr(version.out, "backends: hip") ? "/nonexistent/lib" : "without clang-19", "-m",
          model, "-p", "x", "--backend", "gpu", "--hip-library", "/nonexistent/lib");
    process_free(&version);
    ERROR(2, "--frobnicate", "--frobnicate");
    ERROR(1, "No such file", "-m", "/nonexistent", "-p", "x");
    ERROR(1, text_file, "-m", text_file, "-p", "x");
    ERROR(1, dir, "-m", dir, "-p", "x");
    ERROR(2, "--cpu z80", "-m", "/nonexistent", "-p", "x", "--cpu", "z80");
    ERROR(1, "1024 tokens", "-m", model, "--prompt-ids", long_ids, "--format", "ids");
    ERROR(1, "5 tokens", "-m", model, "--prompt-ids", "1,2,3,4,5", "-c", "5", "--format", "ids");
    ERROR(1, "4096", "-m", model, "--prompt-ids", "1,4096", "--format", "ids");
    ERROR(2, "'x'", "-m", "/nonexistent", "--prompt-ids", "1,x", "--format", "ids");
    ERROR(2, "empty", "-m", "/nonexistent", "--prompt-ids", "", "--format", "ids");
    ERROR(1, "/nonexistent/file", "-m", model, "-f", "/nonexistent/file");
    ERROR(1, "/nonexistent/logits", "-m", model, "-p", "x", "-n", "0", "--logits-out",
          "/nonexistent/logits");
#define CONVERT_ERROR(code, says, ...)                                                             \
    expect_error((char *[]){convert_bin, __VA_ARGS__, NULL}, code, says)
    CONVERT_ERROR(1, "/nonexistent", "/nonexistent", "/tmp/x.safetensors");
    CONVERT_ERROR(1, "holds a model file already, no checkpoint", dir, "/tmp/x.safetensors");
    CONVERT_ERROR(1, text_file, "--verify", text_file);
    unlink(text_file);
}

/* Wrong usage is found before the model is opened, and names the option by the name that was given.
 */
static void usage(void)
{
    char gguf[700];
    struct process p;
#define USAGE(says, ...) ERROR(2, says, "-m", "/nonexistent", __VA_ARGS__)
    USAGE("unknown option '--predic' (is --predict meant?)", "-p", "x", "--predic", "5");
    USAGE("unknown option '--sam'", "-p", "x", "--sam", "5");
    USAGE("unknown option '-n5' (see --help; a value is a word of its own: -n 5)", "-p", "x",
          "-n5");
    USAGE("unknown option '-vh'", "-vh");
    USAGE("unknown option '-prompt' (", "-prompt", "x");
    USAGE("--numa x: must be one of distribute, isolate, numactl", "-p", "x", "--numa", "x");
    USAGE("--numa needs --backend cpu", "-p", "x", "--numa", "isolate", "--backend", "hip");
    USAGE("--numa needs --backend cpu", "-p", "x", "--numa", "isolate", "--backend", "gpu");
    USAGE("--backend amd: must be one of auto, cpu, gpu, hip", "-p", "x", "--backend", "amd");
    USAGE("--query-halves 1 needs --backend hip", "-p", "x", "--query-halves", "1", "--backend",
          "cpu");
    USAGE("--query-halves 1 needs --act f16", "-p", "x", "--query-halves", "1", "--act", "i16");
    USAGE("which --same-bits does not have", "-p", "x", "--query-halves", "1", "--same-bits");
    USAGE("is for CPUs alone", "-p", "x", "--act", "int8-token", "--same-bits");
    USAGE("--chat takes no value", "--chat=yes", "-p", "x");
    USAGE("option '-n' needs an argument", "-p", "x", "-n");
    USAGE("option '-ub' needs an argument", "-p", "x", "-ub");
    USAGE("unexpected argument 'stray'", "-p", "x", "stray");
    USAGE("unexpected argument '-n'", "-p", "x", "--", "-n");
    USAGE("-i needs a file, and '-p' is an option", "-i", "-p", "Hi");
    USAGE("--perplexity -f: must be one of second-half, contiguous", "--perplexity", "-f", "wiki");
    USAGE("--temperature: 'hot' is not a number", "-p", "x", "--temperature", "hot");
    USAGE("--top-k: 'x' is not an integer", "-p", "x", "--top_k", "x");
    USAGE("--seed: '-2' is not a number from 0 to 2^64-1, or -1", "-p", "x", "--seed", "-2");
    USAGE("--seed: '12x' is not a number from 0", "-p", "x", "--seed", "12x");
    USAGE("--seed: '' is not a number from 0", "-p", "x", "--seed", "");
    USAGE("--file and --prompt-ids exclude", "--file", "x", "--prompt-ids", "1");
    USAGE("-i and --logits-out exclude", "-i", "x", "-o", "y", "--logits-out", "z");
    USAGE("--output needs -i", "-p", "x", "--output", "y");
    USAGE("-o needs -i", "--multiple-choice", "x", "-o", "y", "--report", "z");
    USAGE("--trace needs -i", "--multiple-choice", "x", "--trace", "y");
    USAGE("--report needs -i FILE, --perplexity, --multiple-choice or --eval", "-p", "x",
          "--report", "y");
    USAGE("--kv-pages needs -i FILE, --perplexity, --multiple", "-p", "x", "--kv-pages", "9");
    USAGE("--chunks needs --perplexity", "-p", "x", "--chunks", "9");
    USAGE("--limit needs --multiple-choice", "-p", "x", "--limit", "9");
    USAGE("--few-shot needs --few-shot-file", "--multiple-choice", "x", "--few-shot", "9");
    USAGE("--perplexity and --chat exclude", "--perplexity", "contiguous", "-p", "x", "--chat");
    USAGE("--multiple-choice and -f exclude", "--multiple-choice", "x", "-f", "x");
    USAGE("--tokenize needs the prompt as text", "--prompt-ids", "1", "--tokenize");
    USAGE("--format jsonl needs -i", "-p", "x", "--format", "jsonl");
    USAGE("--stop needs --format text", "-p", "x", "--format", "ids", "--stop", "x");
    USAGE("--shard 3/3", "-i", "x", "-o", "y", "--shard", "3/3");
    USAGE("--shard 1/x", "-i", "x", "-o", "y", "--shard", "1/x");
    USAGE("--stop: the text is not UTF-8", "-p", "x", "--stop", "good", "--stop", "\xff\xfe");
    USAGE("-sys and -sysf exclude each other", "-p", "x", "--chat", "-sys", "a", "-sysf", "b");
    USAGE("-sysf needs --chat or -cnv", "-p", "x", "-sysf", "b");
    USAGE("-ctk and --kv exclude each other", "-p", "x", "-ctk", "q8_0", "--kv", "int8");
    USAGE("-ctk: keys and values are stored alike: -ctk q8_0 -ctv q8_0", "-p", "x", "-ctk", "q8_0");
    USAGE("--cache-type-v: keys and values are stored alike: -ctk q4_0 -ctv q4_0", "-p", "x",
          "--cache-type-v", "q4_0");
    USAGE("-ctk: keys and values are stored alike", "-p", "x", "-ctk", "q4_0", "-ctv", "q8_0");
    USAGE("-ctv bf16: must be one of f32, f16, q8_0, q4_0", "-p", "x", "-ctv", "bf16");
    USAGE("-sys: the text is not UTF-8", "-p", "x", "--chat", "-sys", "\xc3");
    USAGE("-p: the text is not UTF-8", "-p", "\xed\xa0\x80", "--chat");
    static const char *const sizes[] = {"1e30T", "1e400",    "-1G", "0",   "nan", "inf",
                                        "0.5",   "8388608T", "6X",  "6GG", "",    "G"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        USAGE("not a size", "-i", "x", "-o", "y", "--mem", (char *)sizes[i]);
    RUN(&p, NULL, "-m", model, "--tokenize", "-p",
        "a\xff"
        "b");
    check(p.code == 0 && p.out_bytes > 4, "a plain prompt may have any bytes", &p);
    process_free(&p);
    /* what else -m may be given; unit_whatis has all kinds */
    snprintf(gguf, sizeof gguf, "%s/x.gguf", dir);
    write_file(gguf, "GGUF\3...........................", 32);
    ERROR(1, "convert it first: opt4gptq-convert models/demo OUT.safetensors", "-m", "models/demo",
          "-p", "x");
    ERROR(1, "is a file of a GPTQ checkpoint", "-m", "models/demo/model.safetensors", "-p", "x");
    ERROR(1, "is a GGUF file", "-m", gguf, "-p", "x");
    ERROR(1, "is a GGUF file", "-m", gguf, "--multiple-choice", "x");
    ERROR(1, "is a GGUF file", "-m", gguf, "--tokenize", "-p", "x");
    CONVERT_ERROR(2, "no checkpoint given", "-q");
    CONVERT_ERROR(2, "no output given", "models/demo");
    CONVERT_ERROR(2, "unexpected argument 'z'", "x", "y", "z");
    CONVERT_ERROR(2, "--verify needs one file", "--verify");
    CONVERT_ERROR(2, "unknown option '--inf' (is --info meant?)", "--inf", model);
    CONVERT_ERROR(2, "unknown option '-t2'", "-t2", "x", "y");
    CONVERT_ERROR(2, "-t: 17 is not in 1..16", "-t", "17", "x", "y");
    CONVERT_ERROR(2, "--outfile: the output is the second word", "x", "--outfile", "y");
    CONVERT_ERROR(1, "is a GGUF file", "--info", gguf);
    CONVERT_ERROR(1, "is a GGUF file", "--verify", gguf);
    unlink(gguf);
}

/* One name of llama.cpp's with the answer of its row; PLAIN is what the same command prints without
 * it. */
static void foreign_name(char *name, const struct args_other *o, const char *plain)
{
    struct process p;
    char want[512], what[128];
    snprintf(what, sizeof what, "another program's %s", name);
    if (o->answer == ARGS_REFUSED) {
        RUN(&p, NULL, name, "1", "-m", model, "-p", "The heart", "-n", "4", "--format", "ids");
        snprintf(want, sizeof want, "opt4gptq-run: %s: %s\n", name, o->says);
        check(p.code == 2 && !strcmp(p.err, want) && !p.out_bytes && strlen(o->says) > 8, what, &p);
        process_free(&p);
        return;
    }
    snprintf(want, sizeof want, "note: %s: %s\n", name, o->says);
    for (int with = o->answer == ARGS_WITH_VALUE; with <= (o->answer != ARGS_ACCEPTED); with++) {
        char *value = o->answer == ARGS_WITH_VALUE ? "7" : "off";
        if (with) ASK(&p, "-p", "The heart", name, value, "-n", "4", "--format", "ids");
        else ASK(&p, "-p", "The heart", name, "-n", "4", "--format", "ids");
        check(p.code == 0 && !strcmp(p.out, plain) && !strncmp(p.err, want, strlen(want)), what,
              &p);
        process_free(&p);
    }
}

/* Every name of llama.cpp's: refused in one line with what to do instead, or accepted with a note
 * and without any effect. They are whole words: none is taken apart, none prints the help. */
static void llama_cpp(void)
{
    struct process plain, p;
    int n = 0;
    ASK(&plain, "-p", "The heart", "-n", "4", "--format", "ids");
    for (const struct args_other *o = llama_names; o->names; o++)
        for (const char *at = o->names; *at; at += strspn(at, " "), n++) {
            char name[64];
            size_t length = strcspn(at, " ");
            snprintf(name, sizeof name, "%.*s", (int)length, at);
            at += length;
            foreign_name(name, o, plain.out);
        }
    check(n > 420, "llama.cpp's names were tried", NULL);
    n = 0;
    for (const struct args_other *o = vllm_names; o->names; o++)
        for (const char *at = o->names; *at; at += strspn(at, " "), n++) {
            char name[64];
            size_t length = strcspn(at, " ");
            snprintf(name, sizeof name, "%.*s", (int)length, at);
            at += length;
            foreign_name(name, o, plain.out);
        }
    check(n > 200, "vLLM's names were tried", NULL);
    ASK(&p, "--prompt", "The heart", "--n_predict", "4", "--format=ids", "--ctx_size", "64",
        "--batch_size=7", "--top_k", "1", "--top_p", "1", "--min_p", "0", "--repeat_penalty", "1",
        "--temperature", "0", "--mlock", "--no-mmap", "-fa", "on", "--jinja", "--no-warmup", "-ub",
        "64");
    check(p.code == 0 && !strcmp(p.out, plain.out), "other spellings of the same options", &p);
    check(lines(p.err) == 6 + 2, "a note for each option that changes nothing",
          &p); /* and the statistics */
    process_free(&p);
    process_free(&plain);
    RUN(&p, NULL, "-m", model, "-p", "x\\ny", "-n", "0", "--stop", "a\\tb");
    check(p.code == 0 && strstr(p.err, "note: -p: \\n is a backslash") &&
              strstr(p.err, "note: --stop: \\t is a backslash"),
          "texts with a backslash and a letter", &p);
    process_free(&p);
    RUN(&p, NULL, "-m", model, "-p", "x\\\\ny\\w", "-n", "0", "--stop", "\n");
    check(p.code == 0 && !strstr(p.err, "note:"), "texts with neither", &p);
    process_free(&p);
    RUN(&p, NULL, "-m", model, "-p", "x\\ny", "-n", "0", "--no-escape");
    check(p.code == 0 && !strstr(p.err, "note:"), "texts that are meant so", &p);
    process_free(&p);
}

/* The shipped prompts: their ids, and text and ids of the greedy answer. */
static void demo_answers(void)
{
    json_t *expected = json_load_file("models/demo/expected.json", 0, NULL);
    size_t i;
    json_t *v;
    json_array_foreach (json_object_get(expected, "prompts"), i, v) {
        const char *prompt = json_string_value(json_object_get(v, "prompt")),
                   *text = json_string_value(json_object_get(v, "text"));
        char want[4096], ids[2048] = "";
        size_t j;
        json_t *id;
        struct process p;
        json_array_foreach (json_object_get(v, "ids"), j, id)
            snprintf(ids + strlen(ids), sizeof ids - strlen(ids), j ? " %lld" : "%lld",
                     json_integer_value(id));
        strcat(ids, "\n");
        RUN(&p, NULL, "-m", model, "--tokenize", "--special", "-p", (char *)prompt);
        check(p.code == 0 && !strcmp(p.out, ids), "tokenize a demo prompt", &p);
        process_free(&p);
        ASK(&p, "-p", (char *)prompt, "-n", "64");
        snprintf(want, sizeof want, "%s%s\n", prompt, text);
        check(p.code == 0 && !strcmp(p.out, want), "a demo prompt's answer as text", &p);
        process_free(&p);
        RUN(&p, prompt, "-m", model, "--temp", "0", "-f", "-", "-n", "64", "--no-display-prompt");
        snprintf(want, sizeof want, "%s\n", text);
        check(p.code == 0 && !strcmp(p.out, want), "the same from stdin, without the prompt", &p);
        process_free(&p);
    }
    check(i >= 5, "models/demo/expected.json was read", NULL);
    json_decref(expected);
}

/* Files of text that begin with a byte order mark are read without it. */
static void byte_order_marks(void)
{
    static const struct {
        const char *option, *text, *want;
    } files[] = {
        {"-jf", "\xef\xbb\xbf{\"const\": \"yes\"}", "x\"yes\"\n"},
        {"--grammar-file", "\xef\xbb\xbfroot ::= \"yes\"", "xyes\n"},
    };
    char path[700];
    struct process p;
    snprintf(path, sizeof path, "%s/marked", dir);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        write_file(path, files[i].text, strlen(files[i].text));
        RUN(&p, NULL, "-m", model, "-p", "x", "-n", "9", (char *)files[i].option, path);
        check(p.code == 0 && !strcmp(p.out, files[i].want), files[i].option, &p);
        process_free(&p);
    }
    write_file(path, "\xef\xbb\xbfx", 4);
    RUN(&p, NULL, "-m", model, "-n", "0", "-f", path); /* BOS and x */
    check(p.code == 0 && strstr(p.err, "prompt 2 tokens"), "-f of a text with a byte order mark",
          &p);
    process_free(&p);
    unlink(path);
}

static void text_round_trip(void)
{
    static const char text[] =
        "Gr\xc3\xbc\xc3\x9f"
        "e \xe4\xbd\xa0\xe5\xa5\xbd "
        "\xf0\x9f\x98\x80\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb\n\n  tabs\tand spaces  \n";
    char path[700];
    struct process p, q;
    snprintf(path, sizeof path, "%s/text", dir);
    write_file(path, text, sizeof text - 1);
    RUN(&p, NULL, "-m", model, "--tokenize", "-f", path);
    RUN(&q, p.out, "-m", model, "--detokenize", "-f", "-");
    check(q.code == 0 && q.out_bytes == sizeof text && !memcmp(q.out, text, sizeof text - 1) &&
              q.out[sizeof text - 1] == '\n',
          "text survives ids and back, last newline included", &q);
    process_free(&p);
    process_free(&q);
    unlink(path);
}

static void generation(void)
{
    struct process p, q;
    ASK(&p, "-p", "Once upon a time there was", "-n", "64", "--stop", "the same",
        "--no-display-prompt");
    check(p.code == 0 && !strcmp(p.out, " a great crowd of people, and the people were all in \n"),
          "a stop string that straddles tokens ends the text before it", &p);
    process_free(&p);
    ASK(&p, "-p", "Once upon a time there was", "-n", "3", "--format", "ids");
    check(p.code == 0 && !strcmp(p.out, "260 610 2443\n"), "--format ids", &p);
    process_free(&p);
    ASK(&p, "-p", "Once upon a time there was", "-n", "0");
    check(p.code == 0 && !p.out_bytes, "-n 0 prints nothing", &p);
    check(strstr(p.err, "prompt 8 tokens") && strstr(p.err, "tok/s") && strstr(p.err, "MiB"),
          "statistics on stderr", &p);
    process_free(&p);
    ASK(&p, "-p", "Once upon a time there was", "-c", "12", "--format", "ids");
    check(p.code == 0 && !strcmp(p.out, "260 610 2443 280\n"), "generation ends with the context",
          &p);
    process_free(&p);
    RUN(&p, NULL, "-m", model, "-p", "The heart", "-n", "24", "--format", "ids", "-s", "3");
    RUN(&q, NULL, "-m", model, "-p", "The heart", "-n", "24", "--format", "ids", "-s", "3", "-t",
        "1");
    check(p.code == 0 && !strcmp(p.out, q.out), "a seed repeats", &q);
    process_free(&q);
    RUN(&q, NULL, "-m", model, "-p", "The heart", "-n", "24", "--format", "ids", "-s", "3", "-t",
        "1024");
    check(q.code == 0 && !strcmp(p.out, q.out) &&
              strstr(q.err, "note: -t 1024: this process may use "),
          "too many threads", &q);
    process_free(&q);
    RUN(&q, NULL, "-m", model, "-p", "The heart", "-n", "24", "--format", "ids", "-s", "4");
    check(q.code == 0 && strcmp(p.out, q.out), "another seed gives another text", &q);
    process_free(&p);
    process_free(&q);
}

static const char *long_prompt(void)
{
    static char prompt[1500];
    while (strlen(prompt) < 1200)
        strcat(prompt, "The heart pumps blood through the body, and the lungs take in air. ");
    return prompt;
}

/* Logits of the long prompt and 8 greedy ids, as one block of bytes. A variant that does not run
 * here runs in the program that has it emulated (tests/emulators/immintrin), where there is one;
 * else NULL. */
static char *whole_run(const char *program, const char *variant, const char *act, const char *kv,
                       const char *threads, const char *chunk, size_t *n)
{
    struct process p;
#define PINNED                                                                                     \
    "--cpu", (char *)variant, "--act", (char *)act, "--kv", (char *)kv, "-t", (char *)threads,     \
        "-b", (char *)chunk
    char *const argv[] = {(char *)program,       "-m",   model, "--temp",   "0",   "-p",
                          (char *)long_prompt(), "-n",   "8",   "--format", "ids", PINNED,
                          "--logits-out",        file_a, NULL};
    process_run(&p, argv, NULL);
    char *bytes = NULL;
    int absent = p.code == 1 && strstr(p.err, "this processor");
    if (absent && program == run_bin && !access(emulated_bin, X_OK)) {
        bytes = whole_run(emulated_bin, variant, act, kv, threads, chunk, n);
    } else if (absent) {
        printf("SKIP variant %s: %s", variant, p.err);
    } else {
        check(p.code == 0, "a long prompt on a pinned variant", &p);
        bytes = read_file(file_a, n);
        char *grown = bytes ? realloc(bytes, *n + p.out_bytes + 1) : NULL;
        if (grown) memcpy(grown + *n, p.out, p.out_bytes);
        *n += p.out_bytes;
        bytes = grown;
    }
    unlink(file_a);
    process_free(&p);
    return bytes;
}

/* Bits of logits and answer do not depend on threads, on how the prompt is cut into steps, or on
 * the variant. */
static void invariance(void)
{
    static const struct {
        const char *variant, *threads, *chunk;
    } runs[] = {
        {"scalar", "2", "512"},
        {"auto", "1", "512"},
        {"auto", "4", "512"},
        {"auto", "1", "1"},
        {"auto", "3", "7"},
#if defined(__x86_64__)
        {"avx2", "2", "512"},
        {"avx2", "1", "33"},
        {"avx512", "2", "33"},
        {"vnni", "2", "33"},
        {"amx", "2", "512"},
#elif defined(__aarch64__)
        {"neon", "2", "512"},
        {"neon", "1", "33"},
        {"dotprod", "2", "512"},
        {"dotprod", "1", "33"},
#endif
    };
    static const struct {
        const char *act, *kv;
    } kinds[] = {{"f32", "f16"}, {"i16", "f16"}, {"int8", "f16"}, {"f32", "int8"}, {"i16", "int8"}};
    for (size_t a = 0; a < sizeof kinds / sizeof *kinds; a++) {
        size_t n_first = 0;
        char *first = NULL;
        for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
            size_t n = 0;
            char *bytes = whole_run(run_bin, runs[i].variant, kinds[a].act, kinds[a].kv,
                                    runs[i].threads, runs[i].chunk, &n),
                 what[160];
            if (!bytes) continue;
            snprintf(what, sizeof what,
                     "--act %s --kv %s --cpu %s -t %s -b %s has the bits of the first run",
                     kinds[a].act, kinds[a].kv, runs[i].variant, runs[i].threads, runs[i].chunk);
            if (first) check(n == n_first && n > 1000000 && !memcmp(first, bytes, n), what, NULL);
            if (!first) first = bytes, n_first = n;
            else free(bytes);
        }
        free(first);
    }
}

/* --chat: the model's template, or one that is given, wraps the prompt; BOS comes once; only the
 * answer is printed. */
/* --logits-out: a part that was left is no error, and permissions of the file are kept. */
static void replaced(void)
{
    struct process p;
    struct stat st;
    char part[700];
    snprintf(part, sizeof part, "%s.part", file_a);
    write_file(part, "stale", 5);
    write_file(file_a, "old", 3);
    chmod(file_a, 0600);
    ASK(&p, "-p", "Once", "-n", "0", "--logits-out", file_a);
    check(p.code == 0 && !strstr(p.err, "File exists") && !stat(file_a, &st) && st.st_size > 1000 &&
              (st.st_mode & 0777) == 0600 && access(part, F_OK),
          "--logits-out replaces a file and a part", &p);
    process_free(&p);
    unlink(file_a);
    /* names of the command line are shown without what a terminal would obey */
    ASK(&p, "-p", "x", "-n", "0", "--mlock", "--log-colors=\033[2J");
    check(p.code == 0 && !strchr(p.err, 27), "a note on a hostile word", &p);
    process_free(&p);
    ASK(&p, "-p", "x", "-n", "0", "--temp=\033[2J");
    check(p.code == 2 && !strchr(p.err, 27) && strstr(p.err, "?[2J"), "an error on one", &p);
    process_free(&p);
}

/* An answer that ends before its document says so, once; options that have nothing to do say that.
 */
static void notes(void)
{
    static const char cut[] = "ended the answer before its document was complete";
    struct process p;
    static const struct {
        char *args[6];
        const char *says;
    } runs[] = {
        {{"--regex", "[a-z]{500}", "-n", "9"}, "note: -n ended the answer before its document"},
        {{"--regex", "[a-z]{500}", "-c", "30"}, "note: the context ended the answer before its"},
        {{"--chat", "--regex", "[a-z]{500}", "-n", "9"}, "note: -n ended the answer before its"},
        {{"--regex", "[a-z]+", "-n", "9"}, NULL}, /* may end there */
        {{"--choice", "yes", "-n", "9"}, NULL},
        {{"-n", "9"}, NULL},
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        char *argv[16] = {run_bin, "-m", model, "--temp", "0", "-p", "Hi"};
        for (int k = 0; k < 6; k++) argv[7 + k] = runs[i].args[k];
        process_run(&p, argv, NULL);
        const char *note = strstr(p.err, cut);
        check(p.code == 0 && !runs[i].says == !note && (!note || !strstr(note + 1, cut)) &&
                  (!note || strstr(p.err, runs[i].says)),
              "whether an answer was cut", &p);
        process_free(&p);
    }
    ASK(&p, "-p", "x", "-n", "0", "-np", "4", "--order", "done", "--no-prefix-cache");
    check(p.code == 0 && strstr(p.err, "note: -np: changes nothing here") &&
              strstr(p.err, "note: --order: ") && strstr(p.err, "note: --no-prefix-cache: "),
          "options of a batch with a prompt", &p);
    process_free(&p);
    ASK(&p, "run-batch", "-p", "x", "-n", "0");
    check(p.code == 0 && strstr(p.err, "note: run-batch: "), "a command of vLLM", &p);
    process_free(&p);
}

/* ulimit -v is heeded when memory is sized, and the message of what does not fit has both units
 * and what helps. */
static void address_space(void)
{
    struct process p;
    char command[2000], in[700], out[700];
    snprintf(in, sizeof in, "%s/in.txt", dir);
    snprintf(out, sizeof out, "%s/out", dir);
    write_file(in, "Hi\nHo\n", 6);
    if (getenv("ASAN_OPTIONS") && strstr(run_bin, "-san")) {
        skip("ulimit -v: a sanitized program takes all of the address space");
        return;
    }
    /* 64 sequences could fill 400 MiB of pages; what there is decides */
    snprintf(command, sizeof command,
             "ulimit -v 300000; exec %s -m %s -i %s -o - -n 2 -np 64 -t 1 --kv f32", run_bin, model,
             in);
    process_run(&p, (char *[]){"/bin/sh", "-c", command, NULL}, NULL);
    check(p.code == 0 && lines(p.out) == 2, "a batch within ulimit -v", &p);
    process_free(&p);
    snprintf(command, sizeof command,
             "ulimit -v 200000; exec %s -m %s -p Hi -n -1 -c 40000 -t 1 --kv f32", run_bin, model);
    process_run(&p, (char *[]){"/bin/sh", "-c", command, NULL}, NULL);
    check(p.code == 1 && strstr(p.err, "the KV cache needs") && strstr(p.err, " MiB") &&
              strstr(p.err, "-c") && strstr(p.err, "-np") && strstr(p.err, "--mem"),
          "a context beyond ulimit -v", &p);
    process_free(&p);
    int n_named = 0,
        n_silent = 0; /* too little, from the model's own size on: whatever lacks says so */
    for (int limit = 8000; limit <= 60000; limit += 4000) {
        snprintf(command, sizeof command, "ulimit -v %d; exec %s -m %s -i %s -o - -n 2 -np 1 -t 1",
                 limit, run_bin, model, in);
        process_run(&p, (char *[]){"/bin/sh", "-c", command, NULL}, NULL);
        n_named += p.code == 1 && strstr(p.err, "ulimit -v") != NULL;
        n_silent += p.code == 1 && strstr(p.err, "out of memory") && !strstr(p.err, "ulimit -v") &&
                    !strstr(p.err, "--mem");
        if (n_silent) check(0, "a lack of memory that does not name its limit", &p);
        process_free(&p);
    }
    check_that(n_named > 0 && !n_silent, "errors that name ulimit -v: %d", n_named);
    unlink(in);
    unlink(out);
}

static void failing_output(void)
{
    struct process p;
    char command[1400];
    snprintf(command, sizeof command, "%s -m %s -p Once -n 8 --temp 0 >/dev/full", run_bin, model);
    process_run(&p, (char *[]){"/bin/sh", "-c", command, NULL}, NULL);
    check(p.code == 1 && strstr(p.err, "stdout"), "a full disk under stdout is an error", &p);
    process_free(&p);
}

/* The GPU backend over the runtime of tests/emulators/fibers/fibers.c, where the build has both. */
static void gpu(const char *build)
{
    char library[700], small[700], logits[2][700], kernels[700];
    struct process p;
    snprintf(library, sizeof library, "%s%s/tests/bin/libhip-fibers.so",
             build[0] == '/' ? "" : "./", build);
    snprintf(kernels, sizeof kernels, "%s/gpu/gfx90a.co", build);
    if (access(library, R_OK) || access(kernels, R_OK)) {
        skip("the GPU backend: not in this build");
        return;
    }
    snprintf(small, sizeof small, "%s/small.safetensors", dir);
    process_run(&p, (char *[]){convert_bin, "tests/data/gptq/llama", small, NULL}, NULL);
    process_free(&p);
    process_run(&p, (char *[]){run_bin, "--list-devices", "--hip-library", library, NULL}, NULL);
    check(p.code == 0 && strstr(p.out, "0: fibers") && strstr(p.out, "kernels for gfx90a"),
          "--list-devices", &p);
    process_free(&p);
#define GPU(...)                                                                                   \
    run_bin, "-m", small, "--prompt-ids", "1,5,7,9,11", "--format", "ids", "--backend", "hip",     \
        "--hip-library", library, __VA_ARGS__
    expect_error((char *[]){GPU("--device", "3", NULL)}, 1, "--device 3");
    expect_error(
        (char *[]){GPU("--act", "i16", "--kv", "int8", "--variant", "q4_decode_f16_1", NULL)}, 1,
        "needs --act f16 or f32");
    expect_error((char *[]){GPU("--same-bits", "--act", "f16", NULL)}, 2, "--same-bits: --act f16");
    expect_error((char *[]){GPU("--act", "int8-token", NULL)}, 1, "--act int8-token is the CPU's");
    expect_error((char *[]){GPU("--variant", "none", NULL)}, 1, "q4_decode_f16_{1,2,4,8}");
    expect_error((char *[]){GPU("--variant", "paper_base_8", NULL)}, 1, "is not among the kernels");
    for (int i = 0; i < 2; i++) {
        snprintf(logits[i], sizeof logits[i], "%s/logits%d", dir, i);
        process_run(
            &p, (char *[]){GPU("-n", "0", "-b", i ? "2" : "512", "--logits-out", logits[i], NULL)},
            NULL);
        check(p.code == 0, "prompt on the GPU backend", &p);
        process_free(&p);
    }
    size_t n[2];
    char *bytes[2] = {read_file(logits[0], &n[0]), read_file(logits[1], &n[1])};
    check(bytes[0] && bytes[1] && n[0] == n[1] && !memcmp(bytes[0], bytes[1], n[0]),
          "the same logits with -b 512 and -b 2 on the GPU backend", NULL);
    /* every allocation can be the one that fails */
    static const char *const memory[] = {"1000", "20000", "16800000", "17000000", "17500000"};
    for (int i = 0; i < 5; i++) {
        setenv("FIBERS_MEMORY", memory[i], 1);
        expect_error((char *[]){GPU("-n", "0", NULL)}, 1, "out of memory");
    }
    unsetenv("FIBERS_MEMORY");
    for (int i = 0; i < 2; i++) free(bytes[i]), unlink(logits[i]);
    unlink(small);
}

int main(int argc, char **argv)
{
    struct process p;
    if (argc < 2) return 2;
    begin(argv[1]);
    snprintf(emulated_bin, sizeof emulated_bin, "%s/tests/bin/run-emulated", argv[1]);
    snprintf(file_a, sizeof file_a, "%s/a", dir);
    process_run(&p, (char *[]){convert_bin, "--info", model, NULL}, NULL);
    check(p.code == 0 && strstr(p.out, "llama"), "--info", &p);
    process_free(&p);
    process_run(&p,
                (char *[]){convert_bin, "-v", "tests/data/gptq/llama-act-order-asym", file_a, NULL},
                NULL);
    check(p.code == 0 && strstr(p.err, "in 2 of 2 layers gate and up leave"),
          "a conversion says what it did about act-order", &p);
    process_free(&p);
    process_run(&p, (char *[]){convert_bin, "--info", file_a, NULL}, NULL);
    check(p.code == 0 && strstr(p.out, "act-order (in 2 layers gate and up are ordered"),
          "--info says it", &p);
    process_free(&p);
    process_run(&p, (char *[]){convert_bin, "--verify", file_a, NULL}, NULL);
    check(p.code == 0 && strstr(p.out, "in 2 layers gate and up are ordered"), "--verify says it",
          &p);
    process_free(&p);
    unlink(file_a);
    process_run(&p, (char *[]){run_bin, "--version", NULL}, NULL);
    check(p.code == 0 && strstr(p.out, "cpu"), "--version", &p);
    process_free(&p);
    process_run(&p, (char *[]){run_bin, "--help", NULL}, NULL);
    check(p.code == 0 && strstr(p.out, "--prompt-ids"), "--help", &p);
    process_free(&p);
    errors();
    usage();
    llama_cpp();
    demo_answers();
    byte_order_marks();
    text_round_trip();
    generation();
    invariance();
    replaced();
    notes();
    address_space();
    failing_output();
    gpu(argv[1]);
    unlink(model);
    rmdir(dir);
    return report("cli");
}
