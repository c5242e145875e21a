/* convert.c: what a person meets at the command line of opt4gptq-convert: what is refused, what is
 * warned of, what is printed, which files are touched. Works on models/demo and tests/data/gptq;
 * usage: convert BUILD_DIR. */
#include "tests/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static char dir[] = "/tmp/opt4gptq-convert-XXXXXX", shell_head[4000];

static int ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), m = strlen(tail);
    return n >= m && !strcmp(s + n - m, tail);
}

/* A shell's line in the temporary folder: $C and $R are the programs, $D the checkpoints; `new
 * NAME` makes a directory c of links to the files of checkpoint NAME. */
static void shell(struct process *p, const char *command)
{
    char line[6000];
    snprintf(line, sizeof line, "%s%s", shell_head, command);
    process_run(p, (char *[]){"/bin/sh", "-c", line, NULL}, NULL);
}

/* 1 when nothing is there but what was before: no OUT and no temporary file. */
static int left_nothing(void)
{
    struct process p;
    shell(&p, "ls | grep -E '^out|partial'");
    int none = !p.out_bytes;
    process_free(&p);
    return none;
}

/* The command fails with one line that has SAYS, and leaves nothing. */
static void refused(const char *command, const char *says)
{
    struct process p;
    shell(&p, "rm -f out*");
    process_free(&p);
    shell(&p, command);
    check(p.code == 1 && lines(p.err) == 1 && strstr(p.err, says) && !p.out_bytes && left_nothing(),
          command, &p);
    process_free(&p);
}

/* The command succeeds; stderr has N lines and SAYS. */
static void done(const char *command, int n, const char *says)
{
    struct process p;
    shell(&p, command);
    check(p.code == 0 && lines(p.err) == n && strstr(p.err, says), command, &p);
    process_free(&p);
}

/* ---- what is no regular file is refused at once, wherever it is met */

static void special_files(void)
{
    static const char *const kinds[] = {"mkfifo", "mkdir", "ln -s /dev/zero", "ln -s ../socket",
                                        "ln -s ../loop"};
    static const char *const names[] = {"config.json",           "generation_config.json",
                                        "quantize_config.json",  "model.safetensors.index.json",
                                        "model.safetensors",     "tokenizer.json",
                                        "tokenizer_config.json", "chat_template.jinja"};
    char command[300];
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(a.sun_path, sizeof a.sun_path, "%s/socket", dir);
    if (s < 0 || bind(s, (struct sockaddr *)&a, sizeof a)) exit(2);
    struct process p;
    shell(&p, "ln -s loop loop");
    process_free(&p);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            snprintf(command, sizeof command, "new demo; rm -f c/%s; %s c/%s; $C -q c out",
                     names[i], kinds[k], names[i]);
            refused(command, names[i]);
        }
    refused("new demo; rm c/model.safetensors; mkfifo c/gptq_model-4bit.safetensors; $C -q c out",
            "is not a regular file");
    refused("new demo; rm c/config.json; ln -s /proc/self/status c/config.json; $C -q c out",
            "c/config.json: is not JSON");
    refused("mkfifo f; $C -q f out", "f: is a FIFO");
    refused("$C --info f", "f: is a FIFO");
    refused("$C --verify f", "f: is a FIFO");
    refused("$C --info socket", "socket: is a socket");
    refused("$C --verify /dev/zero", "/dev/zero: is a device");
    refused("$R -m f -p x", "f: is a FIFO");
    refused("$R -m /dev/zero -p x", "/dev/zero: is a device");
    close(s);
}

/* ---- what the run would say */

static void texts(void)
{
    static const char word_piece[] = "{\\\"version\\\":\\\"1.0\\\",\\\"model\\\":{\\\"type\\\":"
                                     "\\\"WordPiece\\\",\\\"vocab\\\":{\\\"a\\\":0}}}";
    static const char small_vocab[] =
        "{\\\"version\\\":\\\"1.0\\\",\\\"added_tokens\\\":[],\\\"model\\\":{\\\"type\\\":"
        "\\\"BPE\\\","
        "\\\"vocab\\\":{\\\"a\\\":0,\\\"b\\\":%d},\\\"merges\\\":[]}}";
    char command[1000], vocab[300];
    snprintf(command, sizeof command,
             "new demo; rm c/tokenizer.json; echo \"%s\" >c/tokenizer.json; $C -q c out",
             word_piece);
    refused(command, "c/tokenizer.json: model: WordPiece is not supported");
    refused(command, "--no-tokenizer");
    done("$C -q --no-tokenizer c out && $R -m out --prompt-ids 1,2 -n 2 --format ids", 2, "tok/s");
    refused("new demo; rm c/tokenizer.json; echo '{' >c/tokenizer.json; $C -q c out",
            "c/tokenizer.json: ");
    refused("new demo; rm c/tokenizer_config.json; echo '[' >c/tokenizer_config.json; $C -q c out",
            "tokenizer_config.json");
    snprintf(vocab, sizeof vocab, small_vocab, 4999);
    snprintf(command, sizeof command,
             "new demo; rm c/tokenizer.json; echo \"%s\" >c/tokenizer.json; $C -q c out", vocab);
    done(command, 1, "warning: c: the tokenizer has ids up to 4999, but vocab_size is 4096");
    snprintf(vocab, sizeof vocab, small_vocab, 4095);
    snprintf(command, sizeof command,
             "new demo; rm c/tokenizer.json; echo \"%s\" >c/tokenizer.json; $C -q c out", vocab);
    done(command, 0, "");
    done("new demo; rm c/tokenizer.json; $C -q c out", 1,
         "neither tokenizer.json nor tokenizer.model");
    done("new demo; echo '{% if %}' >c/chat_template.jinja; $C -q c out", 1,
         "warning: c: chat template of chat_template.jinja: line 1");
    done("new demo; echo '{% for m in messages %}{{ m.content }}{% endfor %}' "
         ">c/chat_template.jinja; $C -q c out",
         0, "");
}

/* ---- tensors and settings */

static void orders(void)
{
    /* a tensor's name changed in its place */
    refused("new llama-act-order-asym; cp $D/../../../models/demo/tokenizer.json c; sed "
            "'s/layers.1.mlp.up_proj.g_idx/layers.1.mlp.up_prox.g_idx/' "
            "$D/llama-act-order-asym/model.safetensors >x; rm c/model.safetensors; mv x "
            "c/model.safetensors; $C -q c out",
            "module 'model.layers.1.mlp.up_proj' has no usable g_idx, but 13 others");
    refused(
        "new llama; sed 's/layers.1.mlp.up_proj.g_idx/layers.1.mlp.up_prox.g_idx/' "
        "$D/llama/model.safetensors >x; rm c/model.safetensors; mv x c/model.safetensors; $C -q "
        "c out",
        "tensor 'model.layers.1.mlp.up_prox.g_idx' is not part of");
    done("new llama; rm c/config.json c/quantize_config.json; for f in config quantize_config; do "
         "sed 's/\"desc_act\": false/\"desc_act\": true/' $D/llama/$f.json >c/$f.json; done; $C -q "
         "c out",
         1, "neither tokenizer"); /* its g_idx says that there is no order */
    done("sed 's/\"model[.]\\(layers[0-9a-z_.]*[.]g_idx\"\\)/\"gptq__\\1/g' "
         "$D/llama/model.safetensors >x; rm c/model.safetensors; "
         "mv x c/model.safetensors; $C -q c out",
         2, "warning: desc_act is true, but 14 modules have no usable g_idx");
}

/* A factor or a bias that other layers have, and this one lost. */
static void lost(void)
{
    static const char *const tensors[][2] = {
        {"gemma4", "layer_scalar"},
        {"gpt-oss", "self_attn.q_proj.bias"},
        {"gpt-oss", "self_attn.v_proj.bias"},
        {"gpt-oss", "mlp.router.bias"},
        {"gpt-oss", "mlp.experts.down.3.bias"},
    };
    char command[700], says[200];
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        const char *model = tensors[i][0], *name = tensors[i][1];
        snprintf(command, sizeof command,
                 "new %s; rm c/model.safetensors; sed 's/model.layers.1.%s/gptq_.layers.1.%s/' "
                 "$D/%s/model.safetensors >c/model.safetensors; $C -q --no-tokenizer c out",
                 model, name, name, model);
        snprintf(says, sizeof says, "tensor 'model.layers.1.%s' is missing", name);
        refused(command, says);
    }
}

/* ---- files of another upload, and what is no file of a checkpoint */

static void uploads(void)
{
    static const char other[] =
        "new llama; echo '{\"weight_map\": {\"model.embed_tokens.weight\": "
        "\"model-00001-of-00002.safetensors\", \"x\": \"model-00002-of-00002.safetensors\"}}' "
        ">c/model.safetensors.index.json; ";
    char command[1500];
#define WITH(rest) (snprintf(command, sizeof command, "%s%s", other, rest), command)
    done(WITH("$C -q c out && $R -m out --prompt-ids 5,6 -n 6 --format ids --temp 0 2>/dev/null "
              ">ids"),
         1, "neither tokenizer");
    done(WITH("touch c/model-00001-of-00002.safetensors c/model-00002-of-00002.safetensors; "
              "$C -q c out && same"),
         1, "neither tokenizer");
    done(WITH("mv c/model.safetensors c/model-00001-of-00001.safetensors; $C -q c out && same"), 1,
         "neither tokenizer");
    done(WITH("mv c/model.safetensors c/gptq_model-4bit-128g.safetensors; $C -q c out && same"), 1,
         "neither tokenizer");
    refused(WITH("mv c/model.safetensors c/model-00001-of-00002.safetensors; $C -q c out"),
            "model-00002-of-00002.safetensors: is not there: the download is incomplete");
    refused(WITH("rm c/model.safetensors; $C -q c out"),
            "model-00001-of-00002.safetensors: is not there: the download is incomplete");
    /* no usual name: the one file with weights, which an adapter and a model file of ours are not
     */
    done("new llama; $C -q c z 2>/dev/null; mv c/model.safetensors c/w.safetensors; printf "
         "'\\002\\0\\0\\0\\0\\0\\0\\0{}' "
         ">c/a.safetensors; mv z c/z.safetensors; $C -q c out && same",
         1, "neither tokenizer");
    refused("cp c/w.safetensors c/v.safetensors; $C -q c out", "2 .safetensors files hold weights");
    refused("rm c/[vw].safetensors; $C -q c out",
            "holds no .safetensors file with a model's weights");
    static const char *const pages[] = {"<!DOCTYPE html><html>", "\\n <HTML lang=en>",
                                        "<?xml version=1.0?><Error>", "Entry not found"};
    static const char *const files[] = {"model.safetensors", "config.json", "tokenizer.json",
                                        "generation_config.json", "model.safetensors.index.json"};
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
        for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
            snprintf(command, sizeof command,
                     "new demo; rm -f c/%s; printf '%s' >c/%s; $C -q c out", files[k], pages[i],
                     files[k]);
            refused(command, "is a web page, not a model: the download went wrong");
        }
    refused("new llama; rm c/model.safetensors; printf '<html>' >c/x.safetensors; $C -q c out",
            "c/x.safetensors: is a web page");
}

/* ---- the tokenizer's own end token ends answers, however it is written, beside the others */

static void ends(void)
{
    static const char *const forms[] = {
        "tokenizer_config.json '{\"eos_token\": \"\\u0120people\"}'",
        "tokenizer_config.json '{\"eos_token\": {\"__type\": \"AddedToken\", \"content\": "
        "\"\\u0120people\"}}'",
        "special_tokens_map.json '{\"eos_token\": \"\\u0120people\"}'",
        "special_tokens_map.json '{\"eos_token\": {\"content\": \"\\u0120people\"}}'",
    };
    char command[1500];
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        snprintf(
            command, sizeof command,
            "new demo; rm -f c/tokenizer_config.json; put() { printf '%%s' \"$2\" >c/$1; }; put "
            "%s; $C c out 2>&1 | grep -q 'eos_token, 852, ends answers' && $R -m out -p 'Once "
            "upon a time there was' -n 20 --temp 0 2>/dev/null >x && printf 'Once upon a time "
            "there was a great crowd of\\n' | cmp - x",
            forms[i]);
        done(command, 0, "");
    }
    /* also where a constraint allows more */
    done("for how in '--regex .+' '--grammar root::=.+' '--regex .{9,60}'; do "
         "$R -m out $how -p 'Once upon a time there was' -n 20 --temp 0 2>/dev/null | tail -n 1 | "
         "grep -q 'a great crowd of$' || echo \"$how\" >&2; done",
         0, "");
    /* one that ends sooner, of generation_config.json, remains; the others modes end as well */
    done("rm -f c/generation_config.json; echo '{\"eos_token_id\": [1, 2443]}' "
         ">c/generation_config.json; $C -q c out2 && $R -m out2 -p 'Once upon a time there was' -n "
         "20 "
         "--temp 0 2>/dev/null | grep -qx 'Once upon a time there was a great'",
         0, "");
    done("echo '<|begin_of_text|>{{ messages[-1].content }}' >t.jinja; for how in '--chat -p' "
         "'-cnv -p'; do $R -m "
         "out "
         "--chat-template-file t.jinja $how 'Once upon a time there was' -n 20 --temp 0 </dev/null "
         "2>/dev/null | tr -d '\\n' | grep -q 'a great crowd of$' || echo \"$how\" >&2; done",
         0, "");
    done("echo '{\"custom_id\": \"a\", \"method\": \"POST\", \"url\": \"/v1/completions\", "
         "\"body\": {\"prompt\": \"Once upon a time there was\", \"max_tokens\": 20, "
         "\"temperature\": 0}}' >in.jsonl; rm -f b.jsonl*; $R -m out -i in.jsonl -o b.jsonl "
         "2>/dev/null; grep -c 'crowd of\",.*\"finish_reason\":\"stop\"' b.jsonl >/dev/null",
         0, "");
    done("new demo; rm -f c/tokenizer_config.json; $C c out 2>&1 | grep -c eos_token | grep -qx 0",
         0, "");
    done("mkdir c/additional_chat_templates; echo '<|begin_of_text|>Once {{ messages[-1].content "
         "}}' "
         ">c/additional_chat_templates/default.jinja; $C -q c out && $R -m out --chat -p 'upon a "
         "time "
         "there was' -n 4 --temp 0 2>/dev/null | grep -q 'a great crowd'",
         0, "");
}

/* ---- numbers that JSON has not, in every file of a checkpoint */

static void numbers(void)
{
    done("new demo; for f in config generation_config tokenizer_config quantize_config; do rm -f "
         "c/$f.json; sed '1s/{/{\"odd\": [Infinity, -Infinity, NaN, 1e400],/' "
         "$D/../../../models/demo/$f.json >c/$f.json; done; grep -c Infinity c/*.json | grep -c "
         "':1' && $C -q c out && $R -m out -p 'Once upon' -n 3 --temp 0 2>/dev/null && $R -m out "
         "-i /dev/null -o out.jsonl -q 2>/dev/null; rm -f out.jsonl",
         0, "");
    refused(
        "new demo; rm -f c/generation_config.json; echo '{\"top_k\": 2.5}' "
        ">c/generation_config.json; $C -q c out && $R -m out -p x -n 1; n=$?; rm -f out; exit $n",
        "'top_k' is not an integer");
    refused("new llama; rm c/config.json; sed 's/\"rms_norm_eps\": [^,]*/\"rms_norm_eps\": NaN/' "
            "$D/llama/config.json >c/config.json; $C -q c out",
            "rms_norm_eps");
    done("new llama; rm c/config.json; sed '1s/{/{\"rope_scaling\": {\"rope_type\": \"yarn\", "
         "\"factor\": 4.0, \"attn_factor\": 0.878},/; s/\"rope_scaling\": null,//' "
         "$D/llama/config.json | sed '/\"rope_parameters\": {/,/}/d' >c/config.json; $C -q c out",
         2, "attn_factor is left out, as transformers does");
}

/* ---- what would convert into a model that opt4gptq-run refuses */

static void no_models(void)
{
    refused("new gemma4; rm c/model.safetensors; cat $D/gemma4/model.safetensors "
            ">c/model.safetensors; printf '\\0\\0' | dd of=c/model.safetensors bs=1 "
            "seek=$((8 + $(od -An -tu8 -N8 c/model.safetensors) + 190256)) conv=notrunc "
            "status=none; $C -q c out",
            "layers.2.layer_scalar' is 0: the checkpoint is damaged");
    refused("new deepseek-v3; rm c/config.json; sed 's/\"mscale\": [^,]*/\"mscale\": 1e4/' "
            "$D/deepseek-v3/config.json >c/config.json; $C -q --no-tokenizer c out",
            "what it becomes is no model that can run: config: 'rope_scale' is missing or out of");
}

/* ---- what is printed */

static void output(void)
{
    struct process p;
    shell(&p, "$C $D/../../../models/demo out");
    check(
        p.code == 0 && lines(p.err) == 1 &&
            !strncmp(p.err,
                     "opt4gptq-convert: out: llama, 42 quantized and 0 plain linears, 5.26 MB in ",
                     75) &&
            (ends_with(p.err, " ms\n") || ends_with(p.err, " s\n")) && !p.out_bytes,
        "one line about a small model", &p);
    process_free(&p);
    done("$C -v $D/../../../models/demo out", 2, "act-order: in 6 of 6 layers");
    done("$C -q -v $D/../../../models/demo out", 0, "");
    done(
        "new llama; rm c/config.json; sed '1s/.*/{\"rope_scaling\": {\"type\": \"dynamic\", "
        "\"factor\": 2.0},/' $D/llama/config.json >c/config.json; $C c out 2>&1 | grep dynamic >&2",
        1, "where -c exceeds 512, the fixed table for 1024 positions is used");
    done("new llama; rm c/quantize_config.json; printf '{\"bits\": 4, \"group_size\": 128, "
         "\"sym\": false, \"desc_act\": "
         "false}' "
         ">c/quantize_config.json; $C c out 2>&1 | grep ' sym ' >&2",
         1, "config.json says sym true, another file says the opposite: using sym false");
    done("$C -q $D/../../../models/demo out && $C --info out | grep -c '^size *5,[0-9]*,[0-9]* "
         "bytes$\\|"
         "llama, 5,770,496 parameters$' >&2",
         1, "2\n");
    /* the files that it was made of, each with its bytes */
    done("$C -q $D/llama-sharded-tied out 2>/dev/null; for f in $D/llama-sharded-tied/model-*s; do "
         "printf '{\\\\\"name\\\\\":\\\\\"%s\\\\\",\\\\\"bytes\\\\\":%d}' "
         "${f##*/} $(stat -c %s $f) >want; LC_ALL=C grep -aqFf want out || echo $f >&2; done",
         0, "");
    shell(&p, "mkdir -p evil; printf '{\"model_type\": \"\\\\u001b[31mred\", \"architectures\": "
              "[\"A\\\\u009b2J\\\\nB\"], \"quantization_config\": {\"quant_method\": "
              "\"\\\\u0007x\", \"format\": \"\\\\r\"}}' >evil/config.json; $C --list evil");
    check(p.code == 1 && lines(p.err) == 1 && lines(p.out) == 4 && !strchr(p.out, 27) &&
              !strchr(p.out, 7) && !strchr(p.out, '\r') && !strstr(p.out, "\xc2\x9b") &&
              strstr(p.out, "?[31mred (A??2J?B)") && strstr(p.out, "converts       no: ") &&
              !strstr(p.err, "is not supported"),
          "--list of a stranger's directory", &p);
    process_free(&p);
    /* the file's own checksum is made right, as a stranger's would be */
    shell(&p, "$C -q $D/llama o 2>/dev/null; LC_ALL=C sed 's/default, theta 10000/"
              "\\\\\\\\u000dx\\\\\\\\u001b[31mx/; s/v1, one added to each field/"
              "\\\\\\\\u001b[2J\\\\\\\\u0007\\\\\\\\u009babc/' o >o2; "
              "crc=$($C --info o2 2>&1 | sed 's/.* is \\(.*\\), not \\(.*\\)/s,\\2,\\1,/'); "
              "LC_ALL=C sed \"$crc\" o2 >o; $C --info o; rm o2");
    check(p.code == 0 && !p.err_bytes && strstr(p.out, "RoPE ?x?[31mx\n") &&
              strstr(p.out, "zero points ?[2J???abc;") && !strpbrk(p.out, "\x1b\x07\r\x9b"),
          "--info of a stranger's file", &p);
    process_free(&p);
}

/* ---- files that are touched */

static void targets(void)
{
    struct process p;
    refused("new demo; rm c/config.json; cp $D/../../../models/demo/config.json c; cp "
            "c/config.json keep; $C -q c c/config.json",
            "c/config.json: is part of the checkpoint being read");
    refused(
        "mkdir -p blobs; mv c/config.json blobs/1; ln -s ../blobs/1 c/config.json; $C -q c blobs/1",
        "blobs/1: is part of");
    refused("mkdir -p c/sub; echo hello >c/sub/note; $C -q c c/sub/note", "c/sub/note: is part of");
    refused("ln -f c/model.safetensors same; $C -q c same", "same: is part of");
    refused("ln -sf $D/../../../models/demo/config.json c/link; $C -q c c/link", "is part of");
    done("cmp blobs/1 keep && $C -q c c/result && cp c/result keep && $C -q c c/result && cmp "
         "c/result keep && cmp same c/model.safetensors",
         0, "");
    /* OUT is a link: the file that it names is replaced; what stands beside OUT is never written
     * through */
    done("echo old >big; echo victim >victim; ln -sf big link; ln -sf victim link.partial; ln -sf "
         "victim big.partial; "
         "$C -q c link && test -L link && cmp big keep && test $(cat victim) = victim && rm "
         "*.partial",
         0, "");
    refused("ln -sf nowhere dangling; $C -q c dangling", "dangling: is a symbolic link to nothing");
    refused("mkdir -p folder; $C -q c folder", "folder: is a directory");
    refused("$C -q c f", "f: is not a regular file");
    refused("$C -q c /dev/null", "/dev/null: is not a regular file");
    refused("ulimit -f 100; $C -q c out", "out: ");
    refused("mkdir -p lora; echo '{}' >lora/adapter_config.json; $C -q lora out",
            "lora: is a LoRA adapter");
    refused("touch lora/file; $C -q lora/file out", "lora/file: is ");
    shell(&p,
          "umask 022; rm -f out; echo >out; chmod 600 out; $C -q c out && stat -c %a out; chmod "
          "664 out; $C -q c out && stat -c %a out; rm out");
    check(p.code == 0 && !strcmp(p.out, "600\n664\n"), "the mode of a replaced file is kept", &p);
    process_free(&p);
    shell(&p, "umask 027; $C -q c out && stat -c %a out; umask 0; $C -q c out2 && stat -c %a out2");
    check(p.code == 0 && !strcmp(p.out, "640\n666\n"), "the umask holds", &p);
    process_free(&p);
    shell(&p, "mkdir -p l; printf '%s' '{\"model_type\": \"\\u001b[31mred\\n\\u009b5m\", "
              "\"architectures\": [\"E\\u0007\"], \"quantization_config\": {\"quant_method\": "
              "\"\\u001bq\", \"format\": \"\\rf\"}}' >l/config.json; $C --list l");
    check(p.code == 1 && strstr(p.out, "model          ?[31mred???5m (E?)\n") &&
              !strpbrk(p.out, "\x1b\x07\r") && !strpbrk(p.err, "\x1b\x07\r"),
          "--list shows no control characters", &p);
    process_free(&p);
}

int main(int argc, char **argv)
{
    struct process p;
    char *build, *data = realpath("tests/data/gptq", NULL);
    if (argc != 2 || !data || !(build = realpath(argv[1], NULL)) || !mkdtemp(dir)) {
        fprintf(stderr, "usage: convert BUILD_DIR\n");
        return 2;
    }
    alarm(600); /* only what waits for ever takes that long */
    snprintf(
        shell_head, sizeof shell_head,
        "cd %s; C=%s/opt4gptq-convert R=%s/opt4gptq-run D=%s; "
        "new() { rm -rf c; mkdir c; n=$1; [ $n = demo ] && n=../../../models/demo; for f in "
        "$D/$n/*; do ln -s $f c; done; rm -f "
        "c/expected* c/chat_template.jinja; }; "
        "same() { $R -m out --prompt-ids 5,6 -n 6 --format ids --temp 0 2>/dev/null | cmp - ids; "
        "}; ",
        dir, build, build, data);
    special_files();
    texts();
    orders();
    lost();
    uploads();
    ends();
    numbers();
    no_models();
    output();
    targets();
    shell(&p, "cd / && rm -rf \"$OLDPWD\"");
    process_free(&p);
    free(build);
    free(data);
    return report("convert");
}
