/* quantize.c: opt4gptq-quantize on made-up checkpoints in bf16 (dense; experts, split and in one
 * tensor): what the result says is near the weights, opt4gptq-convert reads it, the same bytes for
 * any number of threads and after a kill, rules, bad input. usage: quantize BUILD_DIR [CHECKPOINT];
 * with CHECKPOINT the dense one is only made, under that name */
#include "tests/whole/quantize_tools.h"

/* ---- tests */

static void test_formats(void)
{
    static const struct {
        const char *words, *name;
        int bits;
        double most;
    } all[] = {
        {"--no-calibration --group 32", "r4", 4, 0.009},
        {"--no-calibration --bits 8 --group channel", "r8", 8, 2e-4},
        {"--no-calibration --bits 3 --group 64 --asym", "r3", 3, 0.05},
        {"--no-calibration --bits 2 --group 32 --asym --no-mse", "r2", 2, 0.3},
        {"--group 32 --tokens 512 --sequence 128", "g4", 4, 0.05},
        {"--group 32 --tokens 512 --sequence 128 --order full --foem 0.2", "f4", 4, 0.05},
        {"--group 64 --tokens 512 --sequence 100 --order none --asym --bits 3", "n3", 3, 0.2},
    };
    static const char *const modules[] = {"self_attn.q_proj", "self_attn.k_proj",
                                          "self_attn.v_proj", "self_attn.o_proj",
                                          "mlp.gate_proj",    "mlp.down_proj"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct result r;
        char words[300], module[96];
        double worst = 0, least = 1;
        snprintf(words, sizeof words, "@dense @%s -q %s", all[i].name, all[i].words);
        good(words);
        open_result(&r, "dense", all[i].name);
        for (int l = 0; l < LAYERS; l++)
            for (size_t k = 0; k < sizeof modules / sizeof *modules; k++) {
                snprintf(module, sizeof module, "model.layers.%d.%s", l, modules[k]);
                double x = error_of(&r, module, all[i].bits);
                worst = fmax(worst, x), least = fmin(least, x);
            }
        check_that(least > 0 && worst <= all[i].most, "%s: relative error %g to %g, at most %g",
                   words, least, worst, all[i].most);
        close_result(&r);
        converts(all[i].name);
    }
    check_that(!is_there("g4.work"), "nothing is left beside the result");
}

/* The model file directly has the tensors of the converted directory. */
static void test_model_file(void)
{
    char path[700];
    struct err e;
    struct st_file a, b;
    good("@dense @direct.safetensors -q --group 32 --tokens 512 --sequence 128");
    snprintf(path, sizeof path, "%s/direct.safetensors", dir);
    int bad_open = st_open(&a, path, &e);
    snprintf(path, sizeof path, "%s/g4.st", dir);
    bad_open |= st_open(&b, path, &e);
    const char *x = bad_open ? NULL : st_meta(&a, "opt4gptq.crc32"),
               *y = bad_open ? NULL : st_meta(&b, "opt4gptq.crc32");
    json_t *cx = x ? json_loads(x, 0, NULL) : NULL, *cy = y ? json_loads(y, 0, NULL) : NULL;
    check_that(cx &&
                   json_equal(json_object_get(cx, "layers.1.mlp.down_proj.codes"),
                              json_object_get(cy, "layers.1.mlp.down_proj.codes")) &&
                   json_equal(cx, cy),
               "a model file directly has the tensors of the converted directory");
    json_decref(cx);
    json_decref(cy);
    if (!bad_open) st_close(&a), st_close(&b);
}

static void test_experts(void)
{
    struct result r;
    good("@moe @moe4 -q --group 32 --tokens 512 --sequence 128 --report @moe.json");
    good("@fused @fused4 -q --group 32 --tokens 512 --sequence 128");
    good("@fused @fusedr -q --group 32 --no-calibration");
    converts("moe4");
    converts("fused4");
    converts("fusedr");
    open_result(&r, "moe", "moe4");
    double a = error_of(&r, "model.layers.1.mlp.experts.3.up_proj", 4),
           b = error_of(&r, "model.layers.0.mlp.experts.0.down_proj", 4);
    check_that(a > 0 && a < 0.05 && b > 0 && b < 0.05, "experts: relative errors %g, %g", a, b);
    check_that(st_find(&r.q, "model.layers.0.mlp.gate.weight") != NULL, "the router stays plain");
    close_result(&r);
    shell_ok("grep -q '\"-:^model.*mlp.*gate\\$\"' %s/moe4/quantize_config.json", dir);
    shell_ok("grep -q '\"how\": \"gptq\"' %s/moe.json", dir);
}

static void test_threads(void)
{
    good("@dense @t1 -q --group 32 --tokens 512 --sequence 128 -t 1");
    good("@dense @t3 -q --group 32 --tokens 512 --sequence 128 -t 3 --mem 1");
    check_that(same("t1", "t3") && same("t1", "g4"), "the same bytes for 1 and 3 threads");
    good("@moe @m3 -q --group 32 --tokens 512 --sequence 128 -t 3");
    check_that(same("m3", "moe4"), "the same bytes for 3 threads with experts");
}

static void test_kill(void)
{
    for (int i = 0; i < 6; i += 2) kill_run("killed", i, NULL);
    check_that(is_there("killed.work") || is_there("killed"), "a killed run leaves its folder");
    if (!is_there("killed")) {
        bad("@dense @killed -q --group 64 --tokens 512 --sequence 128", 1,
            "settings is not the same");
        good("@dense @killed -q --group 32 --tokens 512 --sequence 128");
    }
    check_that(same("killed", "g4"), "a run that was killed and continued has the same bytes");
}

static void test_rules(void)
{
    struct result r;
    good("@dense @rules -q --no-calibration --group 32 --rule -:.*down_proj --rule "
         "+:.*v_proj{bits=8,group=channel}");
    converts("rules");
    open_result(&r, "dense", "rules");
    check_that(st_find(&r.q, "model.layers.1.mlp.down_proj.weight") != NULL &&
                   !st_find(&r.q, "model.layers.1.mlp.down_proj.qweight"),
               "a rule keeps modules plain");
    double x = error_of(&r, "model.layers.1.self_attn.v_proj", 8);
    check_that(x > 0 && x < 2e-4, "a rule gives 8 bits: relative error %g", x);
    close_result(&r);
    bad("@dense @no -q --rule down", 2, "--rule 'down': '+:' needs settings");
    bad("@dense @no -q --rule +:x{bits=5}", 2, "bits is '5'");
    bad("@dense @no -q --rule -:(", 2, "not a regular expression");
    bad("@dense @no -q --no-calibration --rule -:.*", 1, "nothing is left");
    bad("@moe @no -q --no-calibration --rule -:.*experts.2.*", 1, "all experts of one layer");
}

static void test_bad_input(void)
{
    bad("@dense @g4", 1, "exists");
    bad("@none @no", 1, "none");
    bad("@g4 @no", 1, "is quantized already");
    bad("models/demo @no", 1, "is quantized already");
    bad("@dense @no -q --tokens 9000000", 1, "--tokens asks for 9000000");
    bad("@dense @no -q --sequence 2048", 1, "context is 256");
    bad("@dense @no -q --calibrate @nothing.txt", 1, "nothing.txt");
    bad("@dense @no --no-calibration --tokens 512", 2, "no meaning with --no-calibration");
    bad("@dense", 2, "no result given");
    bad("@dense @no --bits 5", 2, "--bits");
    shell_ok("printf '{\"text\":\"a\"}\\n{\"other\":1}\\n' >%s/bad.jsonl", dir);
    bad("@dense @no -q --calibrate @bad.jsonl", 1, "bad.jsonl: line 2: the record has neither");
    spoil("nan", "model.layers.1.mlp.up_proj.weight", 0x7fc0);
    bad("@nan @half -q --no-calibration", 1, "model.layers.1.mlp.up_proj");
    spoil("huge", "model.layers.1.post_attention_layernorm.weight", 0x7f00);
    bad("@huge @half2 -q --tokens 256 --sequence 128", 1,
        "model.layers.1.mlp.gate_proj: the activations");
    check_that(!is_there("half") && is_there("half.work") && is_there("half2.work"),
               "what was finished before a bad module is kept, under no result's name");
    check_that(!is_there("no") && !is_there("no.work"),
               "nothing is left of runs that failed before anything was finished");
    shell_ok("mkdir %s/small && { mount -t tmpfs -o size=600k none %s/small 2>/dev/null || :; }",
             dir, dir);
    if (shell_code("mountpoint -q %s/small", dir))
        skip("a full disk: no file system can be mounted");
    else {
        bad("@dense @small/out -q --no-calibration", 1, "No space left on device");
        check_that(!is_there("small/out"), "a full disk leaves no result");
        shell_ok("umount %s/small", dir);
    }
}

static void test_texts(void)
{
    shell_ok(
        "printf '{\"messages\":[{\"role\":\"user\",\"content\":\"Tell me of the sea and the "
        "hills\"},{\"role\":\"assistant\",\"content\":\"They are there for all to see.\"}]}\\n'"
        " >%s/one.jsonl && for i in 1 2 3 4 5 6 7 8 9 10; do cat %s/one.jsonl; done | gzip "
        ">%s/chats.jsonl.gz",
        dir, dir, dir);
    good("@dense @chats -q --group 32 --calibrate @chats.jsonl.gz --tokens 128 --sequence 64");
    check_that(!same("chats", "g4"), "another text gives other bytes");
    converts("chats");
}

/* ---- other architectures: fixtures as plain checkpoints */

static void test_fixture(const char *fixture)
{
    char path[600], file[700], words[300];
    snprintf(file, sizeof file, "tests/data/gptq/%s", fixture);
    snprintf(path, sizeof path, "%s/%s", dir, fixture);
    make_plain(file, 1, fixture);
    write_letters(path);
    snprintf(words, sizeof words,
             "@%s @%s.q -q --group 32 --calibrate @letters.txt --tokens 320 "
             "--sequence 32 --report @%s.json",
             fixture, fixture, fixture);
    good(words);
    snprintf(file, sizeof file, "%s.q", fixture);
    shell_ok("%s -q %s/%s %s/%s.st && %s -m %s/%s.st -p 'the sea' -n 4 --temp 0 </dev/null "
             ">/dev/null 2>&1",
             convert, dir, file, dir, file, run, dir, file);
    snprintf(file, sizeof file, "%s/%s.json", dir, fixture);
    json_t *r = json_load_file(file, 0, NULL), *module;
    size_t at;
    double worst = 0;
    json_array_foreach (json_object_get(r, "modules"), at, module)
        worst = fmax(worst, json_real_value(json_object_get(module, "weight_error")));
    check_that(at > 5 && worst > 0 && worst < 0.05, "%s: %zu modules, relative error %g", fixture,
               at, worst);
    json_decref(r);
}

int main(int argc, char **argv)
{
    if (argc < 2) return 2;
    begin(argv[1]);
    make("dense", 0, 0);
    if (argc > 2) return shell_code("mv %s/dense %s && rmdir %s", dir, argv[2], dir);
    make("moe", 1, 0);
    make("fused", 1, 1);
    test_formats();
    test_model_file();
    test_experts();
    test_threads();
    test_rules();
    test_kill();
    test_texts();
    test_bad_input();
    write_text();
    test_fixture("qwen3.5-moe");
    test_fixture("gemma4");
    test_fixture("gpt-oss");
    shell_ok("rm -rf %s", dir);
    return report("quantize");
}
