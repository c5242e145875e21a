/* w4a4.c: opt4gptq-quantize --w4a4 and --act int4: which inputs have 8 bits, what the checkpoint
 * and the model file say, the same answers with every instruction set and on a pretended GPU, the
 * same bytes for threads and after kills, architectures, quality, bad input. usage: w4a4 BUILD_DIR
 */
#include "tests/whole/quantize_tools.h"

static const char *build;

/* Runs the model file NAME.st with --act ACT and more options; what it prints goes to @NAME.ACT. */
static int answers(const char *name, const char *act, const char *more, const char *to)
{
    return shell_code(
        "%s -m %s/%s.st -p 'Once upon a time' -n 12 --temp 0 --logprobs 1 --act %s %s "
        "</dev/null >%s/%s 2>%s/err",
        run, dir, name, act, more, dir, to, dir);
}

/* Codes of a W4A4 module: 4 bits but in the last group, of `group` inputs. */
static void check_codes(const struct result *r, const char *module, int group)
{
    const struct st_tensor *t, *tz;
    uint32_t *words = tensor(&r->q, module, "qweight", &t),
             *z = tensor(&r->q, module, "qzeros", &tz);
    int32_t *g_idx = tensor(&r->q, module, "g_idx", &t);
    const int64_t in = t->shape[0], n = tz->shape[0], out = tz->shape[1] * 4;
    int low = 0, high = 0, outliers = 0;
    uint8_t *codes = malloc((size_t)in * UNPACK_COLS);
    unpack_codes(codes, words, (size_t)out, in, UNPACK_STREAM, 8);
    for (int64_t i = 0; i < in; i++) {
        outliers += g_idx[i] == n - 1;
        for (int k = 0; k < UNPACK_COLS; k++) {
            int *most = g_idx[i] == n - 1 ? &high : &low;
            if (codes[i * UNPACK_COLS + k] > *most) *most = codes[i * UNPACK_COLS + k];
        }
    }
    check_that(n > 1 && outliers == group && low <= 15 && low > 8 && high > 200 &&
                   (z[0] & 255) == 7 && (z[(n - 1) * out / 4] & 255) == 127,
               "%s: %d outliers, codes to %d and %d", module, outliers, low, high);
    free(words), free(z), free(g_idx), free(codes);
}

/* A build without kernels has no pretended GPU; gfx906's machine code, interpreted, or host code.
 */
static int has_gpu(const char *library)
{
    return shell_code("test -e %s && ! %s --version | grep -q 'not in this build'", library, run) ==
           0;
}

/* The same tokens and log-probabilities with every instruction set and GPU. */
static void same_answers(const char *name)
{
    static const char *const cpus[] = {"--cpu avx2 -t 2", "-t 3"}, *const gpus[] = {
                                                                       "libhip-fibers",
                                                                       "libcuda-fibers-80",
                                                                       "libcuda-fibers-90",
                                                                       "libamdhip64-gfx906"};
    check_that(!answers(name, "int4", "--cpu scalar -t 1", "first"), "%s: --act int4 runs", name);
    for (int i = 0; i < 2; i++) {
        if (answers(name, "int4", cpus[i], "other")) continue; /* not this processor's */
        check_that(same("first", "other"), "%s: the same answers with %s", name, cpus[i]);
    }
    for (int i = 0; i < 4; i++) {
        char library[600], more[700];
        snprintf(library, sizeof library, "%s/tests/bin/%s.so", build, gpus[i]);
        snprintf(more, sizeof more, "--backend hip --hip-library %s", library);
        if (!has_gpu(library)) continue;
        check_that(!answers(name, "int4", more, "other") && same("first", "other"),
                   "%s: the same answers with %s", name, gpus[i]);
    }
    shell_ok("test -s %s/first", dir);
    check_that(!answers(name, "int8", "", "other") && !same("first", "other"),
               "%s: int8 is something else", name);
    check_that(!answers(name, "f32", "", "other"), "%s: --act f32 runs", name);
}

#define W4A4 " -q --w4a4 --group 32 --tokens 512 --sequence 128"

static void test_dense(void)
{
    struct result r;
    double x, y;
    good("@dense @g4 -q --group 32 --tokens 512 --sequence 128");
    good("@dense @r8 -q --no-calibration --bits 8 --group channel");
    converts("g4");
    converts("r8");
    good("@dense @w4" W4A4 " --report @w4.json");
    open_result(&r, "dense", "w4");
    check_codes(&r, "model.layers.1.self_attn.k_proj", 32);
    check_codes(&r, "model.layers.0.mlp.down_proj", 32);
    x = error_of(&r, "model.layers.1.mlp.down_proj", 8);
    y = error_of(&r, "model.layers.0.self_attn.q_proj", 8);
    check_that(x > 1e-4 && x < 0.05 && y > 1e-4 && y < 0.05, "W4A4: relative errors %g, %g", x, y);
    close_result(&r);
    shell_ok("grep -q '\"outliers\": 32' %s/w4.json && grep -q '\"w4a4\"' "
             "%s/w4/quantize_config.json && grep -q '\"w4a4\"' %s/w4/config.json",
             dir, dir, dir);
    converts("w4");
    same_answers("w4");
    shell_ok(
        "%s --info %s/w4.st | grep -q 'W4A4 .* 32 largest inputs' && %s --list %s/w4 | grep -q "
        "'W4A4 '",
        convert, dir, convert, dir);
    good("@dense @w4f" W4A4 " --order falling --mse -t 3");
    good("@dense @w4t" W4A4 " -t 3");
    check_that(same("w4", "w4t") && !same("w4", "w4f"), "W4A4: the same bytes for 3 threads");
    good("@dense @w4d.st.safetensors" W4A4);
    shell_ok("%s --verify %s/w4d.st.safetensors >/dev/null", convert, dir);
    check_that(answers("g4", "int4", "", "other") == 1, "--act int4 needs outliers");
    shell_ok("grep -q \"'layers.0.self_attn.q_proj' has no group of 8 bits for outliers\" %s/err",
             dir);
    check_that(answers("r8", "int4", "", "other") == 1, "--act int4 is not for 8 bits alone");
}

static void test_experts(void)
{
    good("@moe @w4moe" W4A4); /* all inputs of down are outliers */
    good("@fused @w4fused" W4A4 " --rule -:.*down_proj");
    converts("w4moe");
    same_answers("w4moe");
    converts("w4fused");
    same_answers("w4fused");
}

static void test_bad_input(void)
{
    spoil("nan", "model.layers.1.mlp.up_proj.weight", 0x7fc0);
    spoil("huge", "model.layers.1.post_attention_layernorm.weight", 0x7f00);
    bad("@dense @no" W4A4 " --bits 8", 2, "--bits 8 contradicts it");
    bad("@dense @no" W4A4 " --asym", 2, "--asym contradicts it");
    bad("@dense @no -q --w4a4 --group channel", 2, "--group channel contradicts it");
    bad("@dense @no -q --w4a4 --no-calibration", 2, "--no-calibration contradicts it");
    bad("@dense @no" W4A4 " --order full", 2, "not --order full");
    bad("@dense @no -q --order rising", 2, "with --w4a4 alone");
    bad("@dense @no" W4A4 " --rule +:.*v_proj{bits=8}", 2, "all modules have the same settings");
    bad("@dense @no -q --w4a4 --tokens 512 --sequence 128", 1,
        "no linear has more inputs than the 128");
    bad("@nan @half3" W4A4, 1, "holds NaN");
    bad("@huge @half4" W4A4, 1, "gate_proj: the activations that go into it are NaN or infinite");
    /* a code of the first group becomes more than 4 bits */
    shell_ok("cp -r %s/w4 %s/w4bad", dir, dir);
    struct st_file s;
    struct err e;
    char path[700];
    const struct st_tensor *t;
    snprintf(path, sizeof path, "%s/w4bad/model.safetensors", dir);
    if (st_open(&s, path, &e)) exit(2);
    int32_t *g_idx = tensor(&s, "model.layers.0.self_attn.q_proj", "g_idx", &t);
    int i = 0;
    while (g_idx[i]) i++;
    t = st_find(&s, "model.layers.0.self_attn.q_proj.qweight");
    FILE *f = fopen(path, "r+");
    fseek(f, (long)(t->offset + (uint64_t)(i / 4 * DIM * 4 + i % 4)), SEEK_SET);
    fputc(99, f);
    fclose(f);
    free(g_idx);
    st_close(&s);
    check_that(shell_code("%s -q %s/w4bad %s/w4bad.st 2>%s/err", convert, dir, dir, dir) == 1,
               "a damaged W4A4 checkpoint is refused");
    shell_ok("grep -q 'holds the code 99 of input .* in a group of 4 bits' %s/err", dir);
}

static void test_kill(void)
{
    for (int i = 1; i < 8; i += 3) kill_run("w4k", i, "--w4a4");
    if (!is_there("w4k")) good("@dense @w4k" W4A4);
    check_that(same("w4k", "w4"), "W4A4 that was killed and continued has the same bytes");
}

static void test_fixture(const char *fixture)
{
    char path[600], file[700], words[300];
    snprintf(file, sizeof file, "tests/data/gptq/%s", fixture);
    snprintf(path, sizeof path, "%s/%s", dir, fixture);
    make_plain(file, 1, fixture);
    write_letters(path);
    snprintf(words, sizeof words,
             "@%s @%s.w -q --group 32 --calibrate @letters.txt --tokens 320 --sequence 32 --w4a4",
             fixture, fixture);
    good(words);
    snprintf(file, sizeof file, "%s.w", fixture);
    converts(file);
    same_answers(file);
}

static double perplexity(const char *name, const char *act)
{
    char path[700];
    double x = 0;
    shell_ok("%s -m %s/%s --act %s --perplexity second-half -f docs/manual.md -c 256 --windows 8 "
             ">%s/ppl 2>/dev/null",
             run, dir, name, act, dir);
    snprintf(path, sizeof path, "%s/ppl", dir);
    FILE *f = fopen(path, "r");
    check_that(f && fscanf(f, "perplexity %lf", &x) == 1, "%s --act %s: a perplexity", name, act);
    if (f) fclose(f);
    return x;
}

/* The demo model: what 4 bits cost. Weights alone next to nothing; activations 0.1 nats a token, of
 * which a half is allowed in addition. */
static void test_quality(void)
{
    make_plain("models/demo", 0, "demo");
    shell_ok("cp models/demo/tokenizer.json models/demo/tokenizer_config.json %s/demo && "
             "%s -q %s/demo %s/demo.st 2>/dev/null",
             dir, convert, dir, dir);
    good("@demo @demo4.safetensors -q --w4a4 --group 64 --tokens 4096 --sequence 512");
    double plain = perplexity("demo.st", "f32"), w4 = perplexity("demo4.safetensors", "f32"),
           a8 = perplexity("demo4.safetensors", "int8"),
           a4 = perplexity("demo4.safetensors", "int4");
    printf("demo, perplexity: %.1f, W4A4's weights %.1f, int8 %.1f, int4 %.1f\n", plain, w4, a8,
           a4);
    check_that(w4 < plain * 1.05 && a8 < w4 * 1.01 && a4 > a8 && a4 < plain * 1.17,
               "W4A4 is within its bounds");
}

int main(int argc, char **argv)
{
    if (argc < 2) return 2;
    build = argv[1];
    begin(build);
    make("dense", 0, 0);
    make("moe", 1, 0);
    make("fused", 1, 1);
    write_text();
    test_dense();
    test_experts();
    test_kill();
    test_bad_input();
    test_fixture("qwen3.5-moe");
    test_fixture("gemma4");
    test_fixture("gpt-oss");
    test_quality();
    shell_ok("rm -rf %s", dir);
    return report("w4a4");
}
