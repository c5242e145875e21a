/* quantize_gpu.c: opt4gptq-quantize on pretended GPUs (the kernels as host code, gfx906's machine
 * code interpreted): the same bytes as on the CPU, for dense checkpoints, experts, recurrent
 * layers, every order and width; a run that was killed on one goes on on the other; bad options.
 * usage: quantize_gpu BUILD_DIR */
#include "tests/whole/quantize_tools.h"

static const char *const gpus[] = {"libhip-fibers", "libcuda-fibers-80", "libcuda-fibers-90",
                                   "libamdhip64-gfx906"};
enum { GPUS = sizeof gpus / sizeof *gpus };
static char library[GPUS][600];
static int n_gpus;

static void find_gpus(const char *build)
{
    for (int i = 0; i < GPUS; i++) {
        snprintf(library[n_gpus], sizeof library[0], "%s/tests/bin/%s.so", build, gpus[i]);
        n_gpus += !shell_code("test -e %s && %s --list-devices --hip-library %s "
                              "2>/dev/null | grep -q 'kernels for'",
                              library[n_gpus], run, library[n_gpus]);
    }
}

static void on_gpu(const char *words, int gpu)
{
    char all[1200];
    snprintf(all, sizeof all, "%.500s --backend hip --hip-library %.599s", words, library[gpu]);
    good(all);
}

#define SHORT " -q --tokens 512 --sequence 100"

static void test_words(void)
{
    static const struct {
        const char *in, *words;
        int all; /* on every GPU, not on the first alone */
    } runs[] = {
        {"dense", "--group 32", 1},
        {"dense", "--group 64 --asym --bits 3 --foem 0.2 --order full", 0},
        {"dense", "--group channel --bits 8 --no-mse", 0},
        {"dense", "--group 32 --bits 2 --order none --damp 0", 0},
        {"dense", "--group 32 --rule -:.*o_proj --rule +:.*v_proj{bits=8}", 0},
        {"dense", "--w4a4 --group 32", 1},
        {"moe", "--group 32", 1},
        {"fused", "--group 32", 0},
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        char words[400], name[32];
        snprintf(words, sizeof words, "@%s @c%zu" SHORT " --backend cpu %s --report @c%zu.json",
                 runs[i].in, i, runs[i].words, i);
        good(words);
        for (int g = 0; g < (runs[i].all ? n_gpus : 1); g++) {
            snprintf(name, sizeof name, "g%zu-%d", i, g);
            snprintf(words, sizeof words, "@%s @%s" SHORT " %s --report @g.json", runs[i].in, name,
                     runs[i].words);
            on_gpu(words, g);
            char cpu[32];
            snprintf(cpu, sizeof cpu, "c%zu", i);
            check_that(same(cpu, name), "%s %s: the same bytes on %s", runs[i].in, runs[i].words,
                       library[g]);
            shell_ok(
                "sed '/\"out\": \"/d' %s/c%zu.json >%s/a && sed '/\"out\": \"/d' %s/g.json >%s/b "
                "&& cmp %s/a %s/b",
                dir, i, dir, dir, dir, dir, dir);
        }
    }
}

/* Recurrent states, shared and latent caches, biases of experts. */
static void test_fixtures(void)
{
    static const char *const names[] = {"qwen3.5-moe", "gemma4", "gpt-oss"};
    write_text();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char file[300], words[400];
        snprintf(file, sizeof file, "tests/data/gptq/%s", names[i]);
        make_plain(file, 1, names[i]);
        snprintf(file, sizeof file, "%s/%s", dir, names[i]);
        write_letters(file);
        for (int g = -1; g < 1; g++) {
            snprintf(words, sizeof words,
                     "@%s @%s.%d -q --group 32 --calibrate @letters.txt --tokens 160 --sequence 32",
                     names[i], names[i], g);
            if (g < 0) good(words);
            else on_gpu(words, g);
        }
        snprintf(words, sizeof words, "%s.-1", names[i]);
        snprintf(file, sizeof file, "%s.0", names[i]);
        check_that(same(words, file), "%s: the same bytes on %s", names[i], library[0]);
    }
}

/* Begun on the CPU, killed, continued on a GPU. */
static void test_devices(void)
{
    good("@dense @whole -q --group 32 --tokens 512 --sequence 128 --backend cpu");
    for (int i = 0; i < 4; i += 3) {
        char words[300];
        shell_ok("rm -rf %s/part %s/part.work", dir, dir);
        kill_run("part", i, NULL);
        if (is_there("part")) continue; /* it was faster */
        snprintf(words, sizeof words, "@dense @part -q --group 32 --tokens 512 --sequence 128");
        on_gpu(words, 0);
        check_that(same("whole", "part"), "a run that went on on a GPU has the same bytes");
    }
}

static void test_bad(void)
{
    bad("@dense @no --no-calibration --backend cpu", 2, "no meaning with --no-calibration");
    bad("@dense @no --backend cpu --device 1", 2, "no meaning with --backend cpu");
    bad("@dense @no --backend tpu", 2, "--backend");
    bad("@dense @no -q --backend gpu --hip-library /nowhere/lib.so", 1,
        n_gpus ? "/nowhere/lib.so" : "no kernels");
    check_that(!is_there("no") && !is_there("no.work"), "nothing is left of them");
}

int main(int argc, char **argv)
{
    if (argc < 2) return 2;
    begin(argv[1]);
    make("dense", 0, 0);
    make("moe", 1, 0);
    make("fused", 1, 1);
    find_gpus(argv[1]);
    test_bad();
    if (n_gpus) {
        test_words();
        test_fixtures();
        test_devices();
    } else skip("no kernels in this build");
    shell_ok("rm -rf %s", dir);
    return report("quantize_gpu");
}
