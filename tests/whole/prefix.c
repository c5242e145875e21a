/* prefix.c: prompts on disk (--prefix-cache-dir) as a user has them: batches, one prompt,
 * conversations and evaluations have the bytes that they have without, find in the next run what
 * the last one computed, and go on whatever becomes of the directory. Models of all kinds of caches
 * and states, with every storage. usage: prefix BUILD_DIR */
#include "tests/harness.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RECORDS = 12, SHARED = 160, VOCAB = 100 };

static char dir[] = "/tmp/opt4gptq-prefix-XXXXXX";
static const char *build_dir;

/* A command line of sh, with R as the program without a model, D as the directory, P as the options
 * of a store in it. */
__attribute__((format(printf, 1, 2))) static struct process shell(const char *fmt, ...)
{
    struct process p;
    char command[4096], whole[4600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(command, sizeof command, fmt, ap);
    va_end(ap);
    snprintf(whole, sizeof whole, "D=%s; R=%s/opt4gptq-run; P=\"--prefix-cache-dir $D/store\"; %s",
             dir, build_dir, command);
    process_run(&p, (char *[]){"/bin/sh", "-c", whole, NULL}, NULL);
    return p;
}

/* 1 when the command ends with code 0; else it is a failed check. */
__attribute__((format(printf, 2, 3))) static void ok(const char *what, const char *fmt, ...)
{
    char command[4096];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(command, sizeof command, fmt, ap);
    va_end(ap);
    struct process p = shell("%s", command);
    check(p.code == 0, what, &p);
    process_free(&p);
}

/* Records that share a beginning, and two prompts apart from it; half of the answers sampled. */
static void write_records(void)
{
    char path[300];
    unsigned long long seed = 3;
    snprintf(path, sizeof path, "%s/in", dir);
    FILE *f = fopen(path, "w");
    if (!f) exit(2);
    for (int i = 0; i < RECORDS; i++) {
        int n = SHARED + 5 + i * 3, alike = i % 6 == 5 ? 0 : SHARED;
        fprintf(f, "{\"custom_id\":\"r%d\",\"method\":\"POST\",\"url\":\"/v1/completions\",", i);
        fprintf(f, "\"body\":{\"model\":\"m\",\"max_tokens\":%d,\"seed\":%d,\"temperature\":%d",
                4 + i, i, i % 2);
        if (i % 4 == 3) fprintf(f, ",\"n\":2");
        for (int k = 0; k < n; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            fprintf(f, "%s%d", k ? "," : ",\"prompt\":[",
                    k < alike ? 3 + k * k % 89 : 3 + (int)((seed >> 33) % (VOCAB - 3)));
        }
        fprintf(f, "]}}\n");
    }
    fclose(f);
}

static void convert(const char *name, const char *from)
{
    ok(name, "%s/opt4gptq-convert -q %s $D/%s.safetensors", build_dir, from, name);
}

/* A batch of the model without a store, then three runs with one, of which the last is made in
 * another way; LEAST: tokens that the second one has from disk. */
static void batches(const char *name, const char *options, int least, double most_computed)
{
    char what[200];
    snprintf(what, sizeof what, "%s%s", name, options);
    struct process p = shell(
        "rm -rf $D/store $D/out*; B=\"$R -m $D/%s.safetensors -c 512 -i $D/in --format ids%s\"; "
        "$B -o $D/out && $B -o $D/out1 $P --report $D/r1 && $B -o $D/out2 $P --report $D/r2 && "
        "$B -o $D/out3 $P -np 3 -b 40 --speculate off && cmp $D/out $D/out1 && "
        "cmp $D/out $D/out2 && cmp $D/out $D/out3 && "
        "for r in r1 r2; do for k in prompt_tokens_from_disk computed_prompt_tokens; do "
        "grep -o \"$k\\\":[0-9]*\" $D/$r | cut -d: -f2; done; done",
        name, options);
    int first = -1, first_computed = 0, second = 0, computed = 0;
    int n = sscanf(p.out, "%d %d %d %d", &first, &first_computed, &second, &computed);
    check(p.code == 0 && n == 4, what, &p);
    check_that(first == 0 && second >= least && computed < most_computed * first_computed,
               "%s: %d, then %d tokens from disk; %d, then %d computed", what, first, second,
               first_computed, computed);
    check_that(!strstr(p.err, "note: --prefix"), "%s: %s", what, p.err);
    process_free(&p);
}

static void all_models(void)
{
    static const struct {
        const char *name, *options;
    } runs[] = {
        {"llama", ""},
        {"llama", " --kv int8"},
        {"llama", " --kv int4"},
        {"llama", " --kv f32"},
        {"llama", " --act f32 -b 24"},
        {"gemma3-capped", " --kv int4"},
        {"gemma4", ""},
        {"deepseek-v3", " --act int8"},
        {"deepseek-v3", " --kv int4"},
        {"gpt-oss", " --kv int8"},
    };
    static const char *const names[] = {"llama",       "gemma3-capped", "gemma4",
                                        "deepseek-v3", "gpt-oss",       "qwen3.5-moe"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char from[100];
        snprintf(from, sizeof from, "tests/data/gptq/%s", names[i]);
        convert(names[i], from);
    }
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        batches(runs[i].name, runs[i].options, SHARED + RECORDS * 10, .3);
    /* states are there behind the shared beginning, not behind each prompt */
    batches("qwen3.5-moe", "", SHARED, .6);
    batches("qwen3.5-moe", " --kv int4 -np 2", SHARED, .6);
}

/* The arithmetic, the storage, the model: each finds only its own. */
static void others_find_nothing(void)
{
    static const char *const others[] = {
        "llama.safetensors --kv int8",
        "llama.safetensors --act f32",
        "gpt-oss.safetensors",
    };
    ok("a first run", "rm -rf $D/store $D/out*; "
                      "$R -m $D/llama.safetensors -i $D/in --format ids -o $D/out $P");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        ok(others[i],
           "$R -m $D/%s -i $D/in --format ids -o $D/out%zu $P --report $D/r && "
           "grep -q 'prompt_tokens_from_disk\":0,' $D/r",
           others[i], i);
    ok("instructions of other bits",
       "B=\"$R -m $D/llama.safetensors -n 1 --format ids --prompt-ids $(seq -s , 3 40) $P\"; "
       "$B --act f32 --cpu avx2 && $B --act f32 --cpu avx2 2>&1 | grep -q ' 32 of them from disk' "
       "&& $B --act f32 --cpu scalar 2>&1 | grep -q ' 0 of them from disk' && "
       "$B --cpu ref 2>&1 | grep -q ' 0 of them from disk'");
    ok("instructions of the same bits",
       "$R -m $D/llama.safetensors --cpu scalar -i $D/in --format ids -o $D/outs $P --report $D/r "
       "&& cmp $D/out $D/outs && grep -q 'prompt_tokens_from_disk\":[1-9]' $D/r");
}

/* Killed at any moment, then two at once; whatever is left there, nothing is said and nothing
 * differs. */
static void killed_and_at_once(void)
{
    struct process p = shell(
        "rm -rf $D/store $D/out*; B=\"$R -m $D/demo.safetensors -i $D/in --format ids -np 2 -b 16 "
        "-t 1\"; $B -o $D/out; for t in .02 .04 .06 .08 .1 .12; do "
        "timeout -s KILL $t $B -o $D/out1 $P; done; $B -o $D/out1 $P || exit 1; cmp $D/out $D/out1 "
        "|| exit 2; rm -rf $D/store; $B -o $D/out2 $P & $B -o $D/out3 $P || exit 3; wait $! || "
        "exit 4; cmp $D/out $D/out2 && cmp $D/out $D/out3 && $B -o $D/out4 $P --report $D/r && "
        "cmp $D/out $D/out4 && grep -q 'prompt_tokens_from_disk\":[1-9]' $D/r");
    check(p.code == 0 && !strstr(p.err, "note: --prefix"), "killed, then two at once", &p);
    process_free(&p);
}

/* The directory is spoiled; the answers are the same and one line says so. The run after it finds
 * everything mended, or says so again (N_NOTES of both). */
static void spoiled(const char *what, const char *how, int n_notes)
{
    struct process p =
        shell("rm -rf $D/store $D/out*; B=\"$R -m $D/demo.safetensors -i $D/in --format ids\"; "
              "$B -o $D/out $P && { %s; } && $B -o $D/out1 $P && cmp $D/out $D/out1 && "
              "$B -o $D/out2 $P && cmp $D/out $D/out2",
              how);
    int n = 0;
    for (const char *at = p.err; (at = strstr(at, "note: --prefix-cache-dir")); at++) n++;
    check(p.code == 0 && n == n_notes, what, &p);
    process_free(&p);
}

static void trouble(void)
{
    spoiled("every file is damaged",
            "for f in $D/store/*; do printf x | dd of=$f bs=1 seek=3000 conv=notrunc 2>/dev/null; "
            "done",
            1);
    spoiled("every file is cut", "for f in $D/store/*; do truncate -s -1 $f; done", 1);
    spoiled("every file is empty", "for f in $D/store/*; do : > $f; done", 1);
    spoiled("one file is all of them",
            "for f in $D/store/*; do one=${one:-$f}; [ $f = $one ] || cp $one $f; done", 1);
    spoiled("the directory is gone", "rm -r $D/store", 0);
    spoiled("files that are others'", "rm $D/store/*; echo mine > $D/store/notes.txt", 0);
    /* a page takes more than the limit, the answers do not */
    spoiled("a file cannot grow", "rm $D/store/*; ulimit -f 40", 2);
    spoiled("a directory that takes no files", "P='--prefix-cache-dir /proc'", 2);
    struct process p = shell(
        "rm -rf $D/store $D/out*; B=\"$R -m $D/demo.safetensors -i $D/in --format ids\"; "
        "$B -o $D/out; for i in 1 2 3; do $B -o $D/out$i $P --prefix-cache-size 700K || exit 1; "
        "cmp $D/out $D/out$i || exit 2; [ $(du -k $D/store | cut -f1) -le 710 ] || exit 3; done; "
        "ls $D/store | wc -l");
    check(p.code == 0 && atoi(p.out) > 5, "a store of a bounded size", &p);
    process_free(&p);
    /* its pages are those at the beginning of a prompt of 40, and stay where a run reads alone */
    p = shell("rm -rf $D/store $D/ids; B=\"$R -m $D/demo.safetensors -n 1 -c 1024 --temp 0 -f - "
              "$P\"; S='--prefix-cache-size 700K'; text=$(seq 1 240); for s in \"$S\" \"$S\" '' "
              "\"$S\" ''; do echo \"$text\" | $B $s 2>&1 > /dev/null | "
              "grep -o '[0-9]* of them from disk'; du -k $D/store | cut -f1; done");
    int n[5] = {0}, kib[5] = {0}, n_read = 0;
    for (const char *at = p.out; n_read < 5; n_read++) {
        int used = 0;
        if (sscanf(at, "%d of them from disk %d%n", &n[n_read], &kib[n_read], &used) != 2) break;
        at += used;
    }
    check(n_read == 5 && n[0] == 0 && n[1] >= 160 && n[2] == n[1] && n[3] > 2 * n[1] &&
              n[4] >= 160 && n[4] < n[3] && kib[1] <= 710 && kib[2] > 1400 && kib[3] <= 710,
          "the beginning of a prompt that is longer than the bound", &p);
    process_free(&p);
}

static void one_prompt(void)
{
    struct process p = shell(
        "rm -rf $D/store; text=$(seq 1 120); B=\"$R -m $D/demo.safetensors -n 20 --temp 0 -f -\"; "
        "echo \"$text\" | $B > $D/a && echo \"$text\" | $B $P > $D/b && echo \"$text\" | $B $P > "
        "$D/c 2> $D/err && cmp $D/a $D/b && cmp $D/a $D/c && grep 'of them from disk' $D/err");
    int n = 0, stored = 0;
    const char *at = strstr(p.out, "prompt ");
    check(p.code == 0 && at && sscanf(at, "prompt %d tokens, %d of them", &n, &stored) == 2 &&
              stored >= (n - 1) / 16 * 16 && stored > 100,
          "one prompt", &p);
    process_free(&p);
    p = shell("seq 1 120 | $R -m $D/demo.safetensors -n 20 --temp 0 -f - --logprobs 2 > $D/a && "
              "seq 1 120 | $R -m $D/demo.safetensors -n 20 --temp 0 -f - --logprobs 2 $P > $D/b && "
              "cmp $D/a $D/b");
    check(p.code == 0, "one prompt whose tokens are all scored", &p);
    process_free(&p);
}

static void conversations(void)
{
    struct process p = shell(
        "rm -rf $D/store; printf '{%%%% for m in messages %%%%}{{ m.content }}|{%%%% endfor %%%%}' "
        "> $D/t; talk() { printf '%%0150d\\nand why\\nwhat then\\n' 7 | $R -m $D/demo.safetensors "
        "-cnv -n 40 --temp 0 --ignore-eos --chat-template-file $D/t \"$@\"; }; talk > $D/a && "
        "talk $P > $D/b && talk $P > $D/c 2> $D/err && cmp $D/a $D/b && cmp $D/a $D/c && "
        "grep ' kept (' $D/err");
    int stored = 0;
    const char *at = strstr(p.out, " kept (");
    check(p.code == 0 && at && sscanf(at, " kept (%d from disk)", &stored) == 1 && stored >= 48,
          "a conversation", &p);
    process_free(&p);
}

static void evaluations(void)
{
    ok("perplexity",
       "rm -rf $D/store; seq 1 300 > $D/text; B=\"$R -m $D/demo.safetensors --perplexity "
       "second-half -c 256 -f $D/text\"; $B > $D/a && $B $P > $D/b && cmp $D/a $D/b && "
       "[ $(ls $D/store | wc -l) -gt 10 ] && $B $P > $D/c && cmp $D/a $D/c");
    ok("choices",
       "rm -rf $D/store; for i in 1 2 3 4 5 6; do echo \"{\\\"query\\\":\\\"$(seq -s ' ' 1 60) "
       "$i\\\",\\\"choices\\\":[\\\"a b\\\",\\\"c d\\\"],\\\"gold\\\":0}\"; done > $D/q; "
       "B=\"$R -m $D/demo.safetensors --multiple-choice $D/q\"; $B --samples $D/s0 > $D/a && "
       "$B $P --samples $D/s1 > $D/b && $B $P --samples $D/s2 > $D/c && cmp $D/a $D/b && "
       "cmp $D/a $D/c && cmp $D/s0 $D/s1 && cmp $D/s0 $D/s2");
}

/* A long prompt of a hybrid: another one that begins alike continues from states within it. */
static void long_prompts_of_hybrids(void)
{
    struct process p = shell(
        "rm -rf $D/store; M=\"-m $D/qwen3.5-moe.safetensors -c 3000 -n 3 --temp 0 --format ids\"; "
        "ids() { seq -s , 1 $1 | sed 's/[0-9]*\\([0-9]\\)/4\\1/g'; }; "
        "$R $M --prompt-ids $(ids 2250),77,78 $P > $D/a 2>/dev/null; "
        "$R $M --prompt-ids $(ids 2150),79,80 > $D/b 2>/dev/null; "
        "$R $M --prompt-ids $(ids 2150),79,80 $P > $D/c 2> $D/e; "
        "$R $M --prompt-ids $(ids 2150),79,80 $P > $D/d 2> $D/f; "
        "cmp $D/b $D/c && cmp $D/b $D/d && grep -ho '[0-9]* of them from disk' $D/e $D/f");
    int first = 0, second = 0;
    check(p.code == 0 && sscanf(p.out, "%d of them from disk %d", &first, &second) == 2 &&
              first == 2048 && second >= 2144,
          "states within a long prompt", &p);
    process_free(&p);
}

/* Prompts that begin together wait for each other's states also where steps have room for all: the
 * first run with a store computes what one without it does. */
static void hybrids_wait(void)
{
    char path[300];
    snprintf(path, sizeof path, "%s/long", dir);
    FILE *f = fopen(path, "w");
    if (!f) exit(2);
    for (int i = 0; i < 4; i++) {
        fprintf(f, "{\"method\":\"POST\",\"url\":\"/v1/completions\",\"body\":{\"model\":\"m\","
                   "\"max_tokens\":2,\"temperature\":0,\"prompt\":[");
        for (int k = 0; k < 2320; k++)
            fprintf(f, "%s%d", k ? "," : "", k < 2300 ? 3 + k * k % 89 : 3 + i + k % 7);
        fprintf(f, "]}}\n");
    }
    fclose(f);
    struct process p = shell(
        "rm -rf $D/store $D/out*; B=\"$R -m $D/qwen3.5-moe.safetensors -c 3000 -b 6000 -i $D/long "
        "--format ids\"; $B -o $D/out --report $D/r0 && $B -o $D/out1 $P --report $D/r1 && "
        "$B -o $D/out2 $P --report $D/r2 && cmp $D/out $D/out1 && cmp $D/out $D/out2 && "
        "for i in 0 1 2; do grep -o 'computed_prompt_tokens\":[0-9]*' $D/r$i | cut -d: -f2; done");
    int without = 0, first = 0, second = 0;
    check(p.code == 0 && sscanf(p.out, "%d %d %d", &without, &first, &second) == 3 &&
              first == without && second < 200,
          "hybrids wait for each other", &p);
    process_free(&p);
}

/* The same on GPUs as host code, which take no page of the CPU's. */
static void gpus(void)
{
    static const struct {
        const char *model, *library, *options;
    } runs[] = {
        {"llama", "hip-fibers", "--act i16 --kv int4"},
        {"llama", "cuda-fibers-80", "--act f16"},
        {"llama", "cuda-fibers-90", "--act i16 --kv int8"},
        {"qwen3.5-moe", "hip-fibers", "--act f16"},
    };
    convert("llama", "tests/data/gptq/llama");
    convert("qwen3.5-moe", "tests/data/gptq/qwen3.5-moe");
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct process p = shell(
            "rm -rf $D/store $D/out*; head -n 3 $D/in > $D/few; B=\"$R -m $D/%s.safetensors -i "
            "$D/few --format ids -c 256 %s\"; $B --backend cpu -o $D/outc $P; H=\"$B --backend hip "
            "--hip-library %s/tests/bin/lib%s.so\"; $H -o $D/out && $H -o $D/out1 $P --report "
            "$D/r1 "
            "&& $H -o $D/out2 $P -np 2 --report $D/r2 && cmp $D/out $D/out1 && cmp $D/out $D/out2 "
            "&& "
            "for r in r1 r2; do grep -o 'prompt_tokens_from_disk\":[0-9]*' $D/$r | cut -d: -f2; "
            "done",
            runs[i].model, runs[i].options, build_dir, runs[i].library);
        int first = -1, second = 0;
        check(p.code == 0 && sscanf(p.out, "%d %d", &first, &second) == 2 && first == 0 &&
                  second >= SHARED && !strstr(p.err, "note: --prefix"),
              runs[i].library, &p);
        process_free(&p);
    }
}

static void usage(void)
{
    static const struct {
        const char *options, *says;
        int code;
    } wrong[] = {
        {"--prefix-cache-dir $D/no/where", "cannot be made: No such file or directory", 1},
        {"--prefix-cache-dir $D/in", "Not a directory", 1},
        {"--prefix-cache-dir ''", "--prefix-cache-dir: no directory is given", 2},
        {"--prefix-cache-size 1G", "--prefix-cache-size needs --prefix-cache-dir", 2},
        {"$P --prefix-cache-size 1X", "--prefix-cache-size 1X", 2},
        {"$P --prefix-cache-size 5K", "--prefix-cache-size: 5120 bytes do not hold one page", 1},
        {"$P --no-prefix-cache", "--prefix-cache-dir and --no-prefix-cache exclude each other", 2},
        {"$P --tokenize", "--prefix-cache-dir", 2},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct process p = shell("$R -m $D/demo.safetensors -p x -n 1 %s", wrong[i].options);
        check(p.code == wrong[i].code && strstr(p.err, wrong[i].says) && lines(p.err) == 1,
              wrong[i].options, &p);
        process_free(&p);
    }
}

static void on_cpus(void)
{
    convert("demo", "models/demo");
    all_models();
    others_find_nothing();
    killed_and_at_once();
    trouble();
    one_prompt();
    conversations();
    evaluations();
    long_prompts_of_hybrids();
    hybrids_wait();
    usage();
}

int main(int argc, char **argv)
{
    int on_gpus = argc > 2 && !strcmp(argv[1], "--gpu");
    if (argc < 2 || !mkdtemp(dir)) return 2;
    build_dir = argv[argc - 1];
    write_records();
    if (on_gpus) gpus();
    else on_cpus();
    struct process p = shell("rm -rf $D");
    process_free(&p);
    return report("prefix");
}
