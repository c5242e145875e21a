/* files.c: which files opt4gptq-run opens, and when: no output is a file that it reads or another
 * output, what cannot be written is found before anything is computed, closed descriptors, limits
 * and links do no harm, every wait ends by a signal. Works on models/demo; usage: files BUILD_DIR.
 */
#include "tests/harness.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char run_bin[512], convert_bin[512], bench_bin[512], dir[] = "/tmp/opt4gptq-files-XXXXXX";

/* A shell's line in the temporary folder; $R, $C, $B: the programs, demo.safetensors and in.jsonl
 * are there. */
static void shell(struct process *p, const char *command)
{
    char line[6000];
    snprintf(line, sizeof line, "cd %s && R=%s C=%s B=%s && %s", dir, run_bin, convert_bin,
             bench_bin, command);
    process_run(p, (char *[]){"/bin/sh", "-c", line, NULL}, NULL);
}

#define SHELL(ok, what, command)                                                                   \
    do {                                                                                           \
        struct process p;                                                                          \
        shell(&p, command);                                                                        \
        check(ok, what, &p);                                                                       \
        process_free(&p);                                                                          \
    } while (0)

/* ---- outputs that are other files of the run */

static void outputs_are_compared(void)
{
    static const struct {
        const char *args, *keeps,
            *says; /* keeps: a file that must not change; "": none may appear */
    } cases[] = {
        {"-m m -i in -o out --report m", "m",
         "--report m: is also the file of -m, which would be written over"},
        {"-m m -i in -o out --report in", "in", "-i"},
        {"-m m -i in -o out --report ./out", "", "-o"},
        {"-m m -i in -o out --report out.journal", "", "-o"},
        {"-m m -i in -o out --report out.part", "", "-o"},
        {"-m m -i in -o out --trace m", "m", "--trace m"},
        {"-m m -i in -o out --trace in", "in", "--trace in"},
        {"-m m -i in -o out --trace r --report r", "", "--trace"},
        {"-m m -i in -o out --trace r --report link-to-r", "", "--trace"},
        {"-m m -i in -o m", "m", "-o m"},
        {"-m m -i in -o in", "in", "-o in"},
        {"-m m -i in -o hard", "m", "-o hard"},
        {"-m m -i in -o soft", "m", "-o"},
        {"-m m -i in -o out --report hard", "m", "--report hard"},
        {"-m m -i in -o out --shard 1/2 --report out.1-of-2", "", "--report out.1-of-2"},
        {"-m m -i in -o - --report x --trace ../$(basename $PWD)/x", "", "--trace"},
        {"-m m -p x -n 1 --logits-out m", "m", "--logits-out m"},
        {"-m m -p x -n 1 --logits-out soft", "m", "--logits-out soft"},
        {"-m m -f in -n 1 --logits-out in", "in", "--logits-out in"},
        {"-m m -p x -n 1 --chat --chat-template-file in --logits-out in", "in",
         "--chat-template-file"},
        {"-m m -f in --perplexity contiguous --samples in", "in", "--samples in"},
        {"-m m -f in --perplexity contiguous --samples x --report x", "", "--samples"},
        {"-m m --multiple-choice in --report in", "in", "--multiple-choice"},
        {"-m m --multiple-choice x --few-shot 1 --few-shot-file in --samples in", "in",
         "--few-shot-file"},
        {"-m m -p x -n 1 >>m", "m", "stdout"},
        {"-m m -i in -o - --report z >>z", "", "--report z"},
        {"-m m -i in -o z 2>>z || { c=$?; cat z >&2; (exit $c); }", "", "-o z"},
        {"-m m -i in -o $(printf '%04096d' 0)", "", "-o: the name is too long"},
        {"-m m -i in -o $(printf '%04092d' 0) --shard 1/2", "", "-o: the name is too long"},
        {"-m m -f - -n 1 --logits-out in <in", "in", "stdin"},
    };
    SHELL(p.code == 0, "made",
          "cp demo.safetensors m && cp in.jsonl in && ln m hard && ln -s m soft && ln -s r "
          "link-to-r");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[600];
        struct process p;
        snprintf(line, sizeof line,
                 "$R %s; code=$?; cmp m demo.safetensors >&2; cmp in in.jsonl >&2; "
                 "for f in out out.journal out.part out.1-of-2 r x m.journal in.journal "
                 "hard.journal; do test ! -e $f || echo $f >&2; done; exit $code",
                 cases[i].args);
        shell(&p, line);
        check(p.code == 2 && strstr(p.err, cases[i].says) && lines(p.err) == 1, cases[i].args, &p);
        process_free(&p);
        shell(&p, "rm -f out* r x z *.journal *.part");
        process_free(&p);
    }
    SHELL(p.code == 0, "different files, devices and pipes are not confused",
          "$R -m m -i in -o out --report /dev/null --trace /dev/null -t 1 2>/dev/null && $R -m m "
          "-i in -o - --report r --trace x -t 1 2>&1 | "
          "grep -q custom_id && test -s r && test -s x && rm -f out r x");
}

/* ---- what cannot be written */

static void unwritable_is_found_first(void)
{
    static const char *const cases[] = {
        "-m demo.safetensors -i in.jsonl -o out --report /nonexistent/r",
        "-m demo.safetensors -i in.jsonl -o out --trace /nonexistent/r",
        "-m demo.safetensors -p x --logits-out /nonexistent/r",
        "-m demo.safetensors -f text --perplexity contiguous -c 8 --report /nonexistent/r",
        "-m demo.safetensors -f text --perplexity contiguous -c 8 --samples /nonexistent/r",
        "-m demo.safetensors --multiple-choice questions --report /nonexistent/r",
        "-m demo.safetensors --multiple-choice questions --samples /nonexistent/r",
    };
    SHELL(p.code == 0, "made",
          "echo 'one two three four five six seven eight nine ten eleven twelve' >text && "
          "echo '{\"query\":\"a\",\"choices\":[\"b\",\"c\"],\"gold\":0}' >questions");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char line[600];
        struct process p;
        snprintf(line, sizeof line, "$R -t 1 %s", cases[i]);
        shell(&p, line);
        check(p.code == 1 && !p.out_bytes && lines(p.err) == 1 && strstr(p.err, "/nonexistent/r") &&
                  strstr(p.err, ": No such file"),
              cases[i], &p);
        process_free(&p);
    }
    SHELL(p.code == 0, "a run that fails later leaves a report as it was, and makes none",
          "echo old >r && ! $R -t 1 -m in.jsonl -i in.jsonl -o out --report r --trace x "
          "2>/dev/null && grep -q old r && test ! -e x && "
          "! $R -t 1 -m in.jsonl --multiple-choice questions --report r --samples x 2>/dev/null && "
          "grep -q old r && test ! -e x");
    SHELL(p.code == 1 && strstr(p.err, "all answers are in out") &&
              strstr(p.err, "--report /dev/full: No space left") && !strstr(p.err, "continues"),
          "answers are complete though the report is not",
          "rm -f out out.journal r; $R -t 1 -m demo.safetensors -i in.jsonl -o out --report "
          "/dev/full; code=$?; test -s out || code=9; exit $code");
    SHELL(p.code == 1 && strstr(p.err, "all answers are in stdout") &&
              strstr(p.err, "--trace /dev/full"),
          "the same on stdout", "$R -t 1 -m demo.safetensors -i in.jsonl -o - --trace /dev/full");
    SHELL(p.code == 0, "made", "rm -f out out.journal");
}

/* ---- descriptors, links, limits */

static void descriptors_may_be_closed(void)
{
    SHELL(p.code == 0, "made", "$R -t 1 -m demo.safetensors -i in.jsonl -o want 2>/dev/null");
    static const char *const closed[] = {"<&-", "2>&-", "<&- 2>&-", "<&- >&- 2>&-"};
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++) {
        char line[600];
        snprintf(line, sizeof line,
                 "rm -f out out.journal; $R -t 1 -m demo.safetensors -i in.jsonl -o out %s; cmp "
                 "out want",
                 closed[i]);
        SHELL(p.code == 0, line, line);
        /* stopped while a message goes to stderr, and continued */
        snprintf(
            line, sizeof line,
            "rm -f out out.journal; $R -t 1 -np 1 -m demo.safetensors -i many.jsonl -o out --grace "
            "0 %s & p=$!; "
            "while kill -0 $p && ! test \"$(stat -c %%s out.journal)\" -gt 900; do :; done "
            "2>/dev/null; kill $p; wait $p; test $? = 4 && "
            "$R -t 1 -m demo.safetensors -i many.jsonl -o out 2>/dev/null && cmp out want-many",
            closed[i]);
        SHELL(p.code == 0, line, line);
    }
    SHELL(p.code == 1 && lines(p.err) == 1 && strstr(p.err, "Bad file descriptor"),
          "a prompt from a closed stdin", "$R -t 1 -m demo.safetensors -n 1 -f - <&-");
    SHELL(p.code == 1 && lines(p.err) == 1 && strstr(p.err, "cannot write to stdout"),
          "an answer to a closed stdout", "$R -t 1 -m demo.safetensors -n 1 -p x >&-");
    SHELL(p.code == 0, "the other programs, too",
          "$C -q models/demo c.st <&- 2>&- && cmp c.st demo.safetensors && $C --verify c.st <&- "
          "2>&- && $B -m c.st -p 4 -n 1 -r 1 -o b <&- 2>&-; "
          "cmp c.st demo.safetensors");
}

static void links_are_not_followed(void)
{
    SHELL(p.code == 0, "the answers' temporary name may be taken by a link",
          "rm -f out*; echo precious >victim; ln -s victim out.part; $R -t 1 -m demo.safetensors "
          "-i in.jsonl -o out 2>/dev/null; "
          "grep -q precious victim && test ! -L out && cmp out want");
    SHELL(p.code == 0, "so may that of the logits",
          "rm -f l; ln -s victim l.part; $R -t 1 -m demo.safetensors -p x -n 1 --logits-out l "
          ">/dev/null 2>&1; grep -q precious victim && test ! -L l "
          "&& test -s l");
    SHELL(p.code == 0, "an output that is a link by the user's own choice is followed",
          "rm -f out* r; echo >real; rm real; ln -s real out; $R -t 1 -m demo.safetensors -i "
          "in.jsonl -o real 2>/dev/null; cmp real want && "
          "ln -s elsewhere r && $R -t 1 -m demo.safetensors -i in.jsonl -o o2 --report r "
          "2>/dev/null && test -s elsewhere");
}

static void limits_end_with_a_line(void)
{
    SHELL(p.code == 1 && strstr(p.err, "File too large") &&
              strstr(p.err, "the same command continues"),
          "a limit on the size of files: batch",
          "rm -f out*; ulimit -f 8; $R -t 1 -m demo.safetensors -i many.jsonl -o out");
    SHELL(p.code == 0, "and the same command continues",
          "$R -t 1 -m demo.safetensors -i many.jsonl -o out 2>/dev/null && cmp out want-many");
    SHELL(p.code == 1 && strstr(p.err, "File too large"), "a limit on the size of files: logits",
          "ulimit -f 1; $R -t 1 -m demo.safetensors -p 'one two three' -n 1 --logits-out l2; "
          "code=$?; test ! -e l2.part || code=9; exit $code");
    SHELL(p.code == 1 && strstr(p.err, "File too large"), "a limit on the size of files: converter",
          "ulimit -f 1; $C -q models/demo l3; code=$?; test \"$(ls l3* 2>/dev/null)\" = '' || "
          "code=9; exit $code");
    /* until it has been seen to compute; more tokens than any machine makes before it looks */
    SHELL(
        p.code == 1 && lines(p.err) >= 1 &&
            strstr(p.err, "opt4gptq-run: m2 cannot be read any more: it was cut"),
        "a model that is cut while it is used",
        "cp demo.safetensors m2; $R -t 1 -m m2 --ignore-eos -n 900 -p x >log & p=$!; "
        "while kill -0 $p 2>/dev/null && ! test -s log; do :; done; truncate -s 8192 m2; wait $p");
    SHELL(
        p.code == 1 && strstr(p.err, "cannot be read any more"),
        "a model that is cut while it is used: batch, and it continues",
        "rm -f out* ; cp demo.safetensors m2; $R -t 1 -np 1 -m m2 -i many.jsonl -o out & p=$!; "
        "while kill -0 $p 2>/dev/null && ! test \"$(stat -c %s out.journal 2>/dev/null || echo "
        "0)\" -gt 900; do :; done; truncate -s 8192 m2; "
        "wait $p; code=$?; cp demo.safetensors m2; $R -t 1 -m m2 -i many.jsonl -o out 2>/dev/null; "
        "sed s/m2/demo/ out | cmp - want-many || code=9; exit $code");
}

/* ---- waits */

/* 1 when the process ends by this signal, or by itself, within a minute. */
static int ends_by(const char *command, int sig)
{
    char line[1000], stat_path[64], text[400];
    snprintf(line, sizeof line, "cd %s && exec %s %s", dir, run_bin, command);
    pid_t pid = fork();
    if (!pid) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 1), dup2(null, 2);
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(127);
    }
    snprintf(stat_path, sizeof stat_path, "/proc/%d/stat", (int)pid);
    for (int asleep = 0; asleep < 20; usleep(5000)) { /* it waits for something */
        FILE *f = fopen(stat_path, "r");
        const char *state = f && fgets(text, sizeof text, f) ? strstr(text, ") ") : NULL;
        if (f) fclose(f);
        if (!state || state[2] == 'Z') break;
        asleep = state[2] == 'S' && strstr(text, "opt4gptq-run") ? asleep + 1 : 0;
    }
    kill(pid, sig);
    int status = 0;
    for (int i = 0; i < 6000; i++, usleep(10000)) /* only a failing test takes that long */
        if (waitpid(pid, &status, WNOHANG) == pid)
            return WIFSIGNALED(status) ? WTERMSIG(status) == sig : 1;
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return 0;
}

static void waits_end_by_a_signal(void)
{
    static const char *const waits[] = {
        "-m demo.safetensors -i fifo -o out",
        "-m demo.safetensors -f fifo",
        "-m demo.safetensors -f fifo 9<>fifo", /* opened, but nothing is written */
        "-m demo.safetensors -p x --chat --chat-template-file fifo",
        "-m demo.safetensors --multiple-choice fifo",
        "-m demo.safetensors --perplexity contiguous -f fifo",
        "-m demo.safetensors -i in.jsonl -o fifo",
        "-m demo.safetensors -i in.jsonl -o - --trace fifo",
        "-m fifo -p x"};
    SHELL(p.code == 0, "made", "rm -f fifo && mkfifo fifo");
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        check(ends_by(waits[i], SIGTERM), waits[i], NULL);
        check(ends_by(waits[i], SIGINT), waits[i], NULL);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2 || !mkdtemp(dir)) {
        fprintf(stderr, "usage: files BUILD_DIR\n");
        return 2;
    }
    char *build = realpath(argv[1], NULL), *models = realpath("models", NULL), command[3000];
    snprintf(run_bin, sizeof run_bin, "%s/opt4gptq-run", build);
    snprintf(convert_bin, sizeof convert_bin, "%s/opt4gptq-convert", build);
    snprintf(bench_bin, sizeof bench_bin, "%s/opt4gptq-bench", build);
    snprintf(command, sizeof command,
             "ln -s %s models && $C -q models/demo demo.safetensors && for i in 1 2 3; do "
             "echo "
             "'{\"custom_id\":\"'$i'\",\"method\":\"POST\",\"url\":\"/v1/"
             "completions\",\"body\":{\"prompt\":\"a\",\"max_tokens\":3}}'; "
             "done >in.jsonl && for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo "
             "'{\"custom_id\":\"'$i'\",\"method\":\"POST\",\"url\":\"/v1/completions\","
             "\"body\":{\"prompt\":\"a b c\",\"max_tokens\":400,\"ignore_eos\":true}}'; done "
             ">many.jsonl && "
             "$R -t 1 -m demo.safetensors -i many.jsonl -o want-many 2>/dev/null",
             models);
    SHELL(p.code == 0, "set up", command);
    outputs_are_compared();
    unwritable_is_found_first();
    descriptors_may_be_closed();
    links_are_not_followed();
    limits_end_with_a_line();
    waits_end_by_a_signal();
    snprintf(command, sizeof command, "rm -rf %s", dir);
    if (system(command)) return 2;
    free(build);
    free(models);
    return report("files");
}
