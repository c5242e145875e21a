#include "core/base/file.h"
#include "core/model/whatis.h"

#include "core/base/json.h"
#include "core/base/safetensors.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEAD = 1 << 16, NAME = NAME_MAX + 1 };

/* What a directory holds: of each kind the first name, by the alphabet, or "". */
struct listing {
    char gguf[NAME], pickle[NAME], ours[NAME], safetensors[NAME], checkpoint[NAME], hub[NAME],
        cache[NAME];
    int n_names, n_checkpoints;
    int config, adapter, index, tokenizer, snapshots, diffusers,
        params;         /* files by their usual names */
    char missing[NAME]; /* a link to nothing */
};

static void keep_first(char kept[NAME], const char *name)
{
    if (!*kept || strcmp(name, kept) < 0) snprintf(kept, NAME, "%s", name);
}

/* PATH as a word of a shell's command. */
static void quote(char *out, size_t cap, const char *path)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:,@%";
    size_t n = 0;
    if (*path == '-') n += (size_t)snprintf(out, cap, "./");
    if (path[strspn(path, plain)] == 0) {
        snprintf(out + n, cap - n, "%s", path);
        return;
    }
    out[n++] = '\'';
    for (; *path && n + 6 < cap; path++) {
        if (*path == '\'') n += (size_t)snprintf(out + n, cap - n, "'\\''");
        else out[n++] = *path;
    }
    out[n++] = '\'';
    out[n] = 0;
}

/* "convert it with: opt4gptq-convert DIR OUT.safetensors" */
static void convert_command(char *out, size_t cap, const char *dir)
{
    char word[PATH_MAX + 64];
    quote(word, sizeof word, dir);
    snprintf(out, cap, "opt4gptq-convert %s OUT.safetensors", word);
}

/* The first bytes of a regular file; 0 when it cannot be read. */
static size_t read_head(const char *path, char *head, size_t cap)
{
    struct stat sb;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 || fstat(fd, &sb) || !S_ISREG(sb.st_mode) ? 0 : read(fd, head, cap - 1);
    if (fd >= 0) close(fd);
    if (n < 0) n = 0;
    head[n] = 0;
    return (size_t)n;
}

static int is_model_file(const char *path)
{
    char *head = malloc(HEAD);
    size_t n = head ? read_head(path, head, HEAD) : 0;
    int yes = n > 8 && head[8] == '{' && memmem(head, n, "\"opt4gptq.version\"", 18);
    free(head);
    return yes;
}

static int is_file(const char *dir, const char *name)
{
    char path[PATH_MAX];
    struct stat sb;
    return snprintf(path, sizeof path, "%s/%s", dir, name) < (int)sizeof path && !stat(path, &sb) &&
           S_ISREG(sb.st_mode);
}

static void look_at(struct listing *l, const char *dir, const char *name)
{
    char path[PATH_MAX];
    struct stat sb;
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path) return;
    l->n_names++;
    if (stat(path, &sb)) {
        if (!lstat(path, &sb) && S_ISLNK(sb.st_mode)) keep_first(l->missing, name);
        return;
    }
    if (S_ISDIR(sb.st_mode)) {
        if (!strcmp(name, "snapshots")) l->snapshots = 1;
        if (!strcmp(name, "hub")) keep_first(l->hub, name);
        if (!strncmp(name, "models--", 8)) keep_first(l->cache, name);
        if (is_file(path, "config.json")) keep_first(l->checkpoint, name), l->n_checkpoints++;
        return;
    }
    if (!strcmp(name, "config.json")) l->config = 1;
    else if (!strcmp(name, "adapter_config.json")) l->adapter = 1;
    else if (!strcmp(name, "model_index.json")) l->diffusers = 1;
    else if (!strcmp(name, "params.json")) l->params = 1;
    else if (!strcmp(name, "tokenizer.json") || !strcmp(name, "tokenizer.model")) l->tokenizer = 1;
    else if (file_name_ends(name, ".safetensors.index.json")) l->index = 1;
    else if (file_name_ends(name, ".gguf")) keep_first(l->gguf, name);
    else if (file_name_ends(name, ".bin") || file_name_ends(name, ".pt") ||
             file_name_ends(name, ".pth"))
        keep_first(l->pickle, name);
    else if (file_name_ends(name, ".safetensors"))
        keep_first(is_model_file(path) ? l->ours : l->safetensors, name);
}

static int list(struct listing *l, const char *dir)
{
    memset(l, 0, sizeof *l);
    DIR *d = opendir(dir);
    if (!d) return -1;
    for (struct dirent *x; (x = readdir(d));)
        if (strcmp(x->d_name, ".") && strcmp(x->d_name, "..") && strcmp(x->d_name, ".git"))
            look_at(l, dir, x->d_name);
    closedir(d);
    return 0;
}

/* "a GPTQ checkpoint", by what its config.json says of its quantization. */
static const char *checkpoint_kind(const char *dir)
{
    char path[PATH_MAX], *text = malloc(HEAD);
    struct err ignored = {0};
    const char *kind = is_file(dir, "quantize_config.json") ? "a GPTQ checkpoint"
                                                            : "a checkpoint of Hugging Face";
    size_t n = text && snprintf(path, sizeof path, "%s/config.json", dir) < (int)sizeof path
                   ? read_head(path, text, HEAD)
                   : 0;
    json_t *config = n ? json_read_python(text, n, 0, NULL, &ignored) : NULL;
    const char *method = json_string_value(
        json_object_get(json_object_get(config, "quantization_config"), "quant_method"));
    if (method && (!strcmp(method, "gptq") || !strcmp(method, "awq")))
        kind = *method == 'g' ? "a GPTQ checkpoint" : "an AWQ checkpoint";
    json_decref(config);
    free(text);
    return kind;
}

/* The snapshot of a hub's cache directory that refs/main names, else the one changed last. */
static int choose_snapshot(const char *dir, char snapshot[NAME])
{
    char path[PATH_MAX + NAME], hash[NAME];
    struct stat sb;
    time_t newest = 0;
    *snapshot = 0;
    if (snprintf(path, sizeof path, "%s/refs/main", dir) >= PATH_MAX) return 0;
    if (read_head(path, hash, sizeof hash)) {
        hash[strcspn(hash, " \r\n")] = 0;
        snprintf(path, sizeof path, "%s/snapshots/%s", dir, hash);
        if (*hash && !strchr(hash, '/') && !stat(path, &sb) && S_ISDIR(sb.st_mode)) {
            snprintf(snapshot, NAME, "%s", hash);
            return 1;
        }
    }
    snprintf(path, sizeof path, "%s/snapshots", dir);
    DIR *d = opendir(path);
    for (struct dirent *x; d && (x = readdir(d));) {
        if (*x->d_name == '.') continue;
        snprintf(path, sizeof path, "%s/snapshots/%s", dir, x->d_name);
        if (stat(path, &sb) || !S_ISDIR(sb.st_mode)) continue;
        if (*snapshot &&
            (sb.st_mtime < newest || (sb.st_mtime == newest && strcmp(x->d_name, snapshot) <= 0)))
            continue;
        newest = sb.st_mtime;
        snprintf(snapshot, NAME, "%s", x->d_name);
    }
    if (d) closedir(d);
    return *snapshot != 0;
}

static int of_directory(const char *dir, enum whatis_wanted wanted, int depth, struct err *e);

static int of_cache(const char *dir, enum whatis_wanted wanted, int depth, struct err *e)
{
    char snapshot[NAME], inner[PATH_MAX], command[PATH_MAX + 128];
    struct err of_it = {0};
    if (!choose_snapshot(dir, snapshot))
        return err_set(e,
                       "%s: is a cache of Hugging Face's hub without a snapshot: the download is "
                       "incomplete",
                       dir),
               1;
    snprintf(inner, sizeof inner, "%s/snapshots/%s", dir, snapshot);
    convert_command(command, sizeof command, inner);
    if (is_file(inner, "config.json") && !of_directory(inner, WHATIS_CHECKPOINT, depth + 1, &of_it))
        err_set(e, "%s: is a cache of Hugging Face's hub; the checkpoint is its snapshot%s: %s",
                dir, wanted == WHATIS_MODEL ? ", to be converted" : "", command);
    else if (of_directory(inner, wanted, depth + 1, &of_it)) *e = of_it;
    else
        err_set(e, "%s: is a cache of Hugging Face's hub, and its snapshot %s holds no checkpoint",
                dir, snapshot);
    return 1;
}

/* A directory with a config.json. */
static int of_checkpoint(const char *dir, const struct listing *l, enum whatis_wanted wanted,
                         struct err *e)
{
    char command[PATH_MAX + 128], word[PATH_MAX + NAME + 64], inner[PATH_MAX + NAME];
    if (wanted == WHATIS_CHECKPOINT) return 0;
    if (*l->ours) {
        snprintf(inner, sizeof inner, "%s/%s", dir, l->ours);
        quote(word, sizeof word, inner);
        return err_set(e, "%s: is a directory; the model file in it is -m %s", dir, word), 1;
    }
    convert_command(command, sizeof command, dir);
    return err_set(e, "%s: is the directory of %s; convert it first: %s", dir, checkpoint_kind(dir),
                   command),
           1;
}

static int of_adapter(const char *path, struct err *e)
{
    return err_set(e,
                   "%s: is a LoRA adapter, a part of no model file: merge it into its base model, "
                   "quantize that and convert it: "
                   "opt4gptq-convert DIR OUT.safetensors",
                   path),
           1;
}

static int of_directory(const char *dir, enum whatis_wanted wanted, int depth, struct err *e)
{
    struct listing *l = malloc(sizeof *l);
    char inner[PATH_MAX + NAME], command[PATH_MAX + 128];
    int rc = 1;
    if (!l || list(l, dir)) return free(l), 0;
    convert_command(command, sizeof command, "DIR");
    if (l->config) {
        rc = of_checkpoint(dir, l, wanted, e);
    } else if (l->adapter) {
        of_adapter(dir, e);
    } else if (l->snapshots && depth < 1) {
        rc = of_cache(dir, wanted, depth, e);
    } else if (*l->ours) {
        char word[PATH_MAX + NAME + 64];
        snprintf(inner, sizeof inner, "%s/%s", dir, l->ours);
        quote(word, sizeof word, inner);
        if (wanted == WHATIS_MODEL)
            err_set(e, "%s: is a directory; the model file in it is -m %s", dir, word);
        else
            err_set(e, "%s: holds a model file already, no checkpoint: opt4gptq-run -m %s", dir,
                    word);
    } else if (*l->gguf) {
        char word[PATH_MAX + NAME + 64];
        snprintf(inner, sizeof inner, "%s/%s", dir, l->gguf);
        quote(word, sizeof word, inner);
        err_set(e,
                "%s: holds GGUF files (%s), of which one can be converted: opt4gptq-convert "
                "%s OUT.safetensors",
                dir, l->gguf, word);
    } else if (l->diffusers) {
        err_set(e, "%s: is a pipeline of diffusers, not a language model", dir);
    } else if (l->params && *l->pickle) {
        err_set(e,
                "%s: is a checkpoint in Meta's own format (%s); the one in Hugging Face's, "
                "quantized, can be converted: %s",
                dir, l->pickle, command);
    } else if (*l->missing) {
        err_set(e, "%s: %s is a link to a file that is not there: the download is incomplete", dir,
                l->missing);
    } else if (l->index || *l->safetensors || *l->pickle) {
        err_set(e, "%s: holds %s but no config.json: the download is incomplete", dir,
                l->index          ? "a .safetensors.index.json"
                : *l->safetensors ? l->safetensors
                                  : l->pickle);
    } else if (*l->cache) {
        char cache[PATH_MAX + NAME];
        struct err of_it = {0};
        snprintf(inner, sizeof inner, "%s/%s", dir, l->cache);
        if (depth < 1 && of_directory(inner, wanted, depth, &of_it) &&
            strlen(of_it.msg) + 64 < sizeof of_it.msg)
            err_set(e, "%s: holds the caches of Hugging Face's hub; %s", dir, of_it.msg);
        else {
            quote(cache, sizeof cache, inner);
            err_set(e,
                    "%s: holds the caches of Hugging Face's hub: give a snapshot of one, as "
                    "%s/snapshots/...",
                    dir, cache);
        }
    } else if (*l->hub && depth < 1) {
        snprintf(inner, sizeof inner, "%s/%s", dir, l->hub);
        rc = of_directory(inner, wanted, depth, e);
    } else if (l->n_checkpoints) {
        snprintf(inner, sizeof inner, "%s/%s", dir, l->checkpoint);
        convert_command(command, sizeof command, inner);
        err_set(e, "%s: has no config.json, its directory %s has%s: %s", dir, l->checkpoint,
                l->n_checkpoints > 1 ? " (and others)" : "", command);
    } else if (!l->n_names) {
        err_set(e, "%s: is an empty directory", dir);
    } else {
        err_set(e, "%s: is a directory without a config.json%s: %s", dir,
                l->tokenizer ? ", with a tokenizer alone" : ", no checkpoint",
                wanted == WHATIS_MODEL
                    ? "-m takes a model file that opt4gptq-convert made"
                    : "give the one that holds config.json and the .safetensors files");
    }
    free(l);
    return rc;
}

static int holds_lora(const struct st_file *s)
{
    for (size_t i = 0; i < s->n_tensors; i++)
        if (strstr(s->tensors[i].name, ".lora_A") || strstr(s->tensors[i].name, ".lora_B"))
            return 1;
    return 0;
}

static int of_safetensors(const char *path, const struct st_file *s, enum whatis_wanted wanted,
                          struct err *e)
{
    char dir[PATH_MAX], command[PATH_MAX + 128], word[PATH_MAX + 64];
    if (st_meta(s, "opt4gptq.version")) {
        quote(word, sizeof word, path);
        return wanted == WHATIS_CHECKPOINT &&
               (err_set(e, "%s: is a model file already: opt4gptq-run -m %s", path, word), 1);
    }
    if (holds_lora(s)) return of_adapter(path, e);
    snprintf(dir, sizeof dir, "%s", path);
    char *slash = strrchr(dir, '/');
    if (!slash) snprintf(dir, sizeof dir, ".");
    else slash[slash == dir] = 0;
    if (!is_file(dir, "config.json"))
        return err_set(e,
                       "%s: is a plain safetensors file with no config.json beside it; the whole "
                       "directory of a checkpoint can be converted: "
                       "opt4gptq-convert DIR OUT.safetensors",
                       path),
               1;
    convert_command(command, sizeof command, dir);
    return err_set(e, "%s: is a file of %s; convert its directory%s: %s", path,
                   checkpoint_kind(dir), wanted == WHATIS_MODEL ? " first" : "", command),
           1;
}

/* Formats by their first bytes. */
static const struct {
    size_t at;
    const char *magic;
    size_t n;
    const char *is;
} formats[] = {
#define MAGIC(at, text, is)                                                                        \
    {                                                                                              \
        at, text, sizeof text - 1, is                                                              \
    }
#define PACKED(how) "is packed with " how ": unpack it first"
    MAGIC(0, "\x1f\x8b", PACKED("gzip")),
    MAGIC(0,
          "\xfd"
          "7zXZ",
          PACKED("xz")),
    MAGIC(0, "\x28\xb5\x2f\xfd", PACKED("zstd")),
    MAGIC(0, "BZh", PACKED("bzip2")),
    MAGIC(0, "7z\xbc\xaf\x27\x1c", PACKED("7-zip")),
    MAGIC(257, "ustar", PACKED("tar")),
    MAGIC(0, "version https://git-lfs",
          "is a git-lfs pointer, not the file itself: run 'git lfs pull' in its directory"),
    MAGIC(0, "\x89HDF",
          "is an HDF5 file of Keras or TensorFlow; what can be converted has .safetensors files: "
          "opt4gptq-convert DIR OUT.safetensors"),
};

/* 1 for what a server sends in place of a file. */
static int is_page(const char *head)
{
    static const char *const begins[] = {"<!doctype", "<html",           "<head",
                                         "<?xml",     "Entry not found", "{\"error\"",
                                         "Not Found", "Invalid username"};
    if (!strncmp(head, "\xef\xbb\xbf", 3)) head += 3;
    head += strspn(head, " \t\r\n");
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        if (!strncasecmp(head, begins[i], strlen(begins[i]))) return 1;
    return 0;
}

static int of_format(const char *path, const char *head, size_t n, struct err *e)
{
    if (is_page(head))
        return err_set(e, "%s: is a web page, not a model: the download went wrong", path), 1;

    static const char *const ggml[] = {"FUGG", "lmgg", "fmgg", "tjgg", "algg"};
    if (n > 8 && !memcmp(head, "GGUF", 4))
        return err_set(e,
                       "%s: is a GGUF file; a file of that ending can be converted: "
                       "opt4gptq-convert FILE.gguf OUT.safetensors",
                       path),
               1;
    for (size_t i = 0; i < sizeof ggml / sizeof *ggml && n > 8; i++)
        if (!memcmp(head, ggml[i], 4))
            return err_set(e,
                           "%s: is a %s file, which is not read: take the model's GGUF file of "
                           "this processor's byte order, or its GPTQ or AWQ checkpoint",
                           path, i < 1 ? "big-endian GGUF" : "GGML"),
                   1;
    int zip = n > 4 && !memcmp(head, "PK\3\4", 4), torch = zip && memmem(head, n, "data.pkl", 8);
    int pickle = n > 2 && head[0] == (char)0x80 && head[1] >= 2 && head[1] <= 5;
    if (torch || pickle)
        return err_set(e,
                       "%s: is a Python pickle (PyTorch's), which is not read because loading one "
                       "can run code: save the model with "
                       "save_pretrained(safe_serialization=True), then opt4gptq-convert DIR "
                       "OUT.safetensors",
                       path),
               1;
    if (zip) return err_set(e, "%s: is a zip archive: unpack it first", path), 1;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (n >= formats[i].at + formats[i].n &&
            !memcmp(head + formats[i].at, formats[i].magic, formats[i].n))
            return err_set(e, "%s: %s", path, formats[i].is), 1;
    return 0;
}

static int of_file(const char *path, enum whatis_wanted wanted, struct err *e)
{
    struct st_file s;
    struct err why = {0};
    char dir[PATH_MAX], command[PATH_MAX + 128], *head;
    if (!st_open(&s, path, &why)) {
        int known = of_safetensors(path, &s, wanted, e);
        st_close(&s);
        return known;
    }
    if (err_is_memory(&why) || !(head = malloc(HEAD))) return 0;
    size_t n = read_head(path, head, HEAD);
    int known = of_format(path, head, n, e);
    free(head);
    if (known || !file_name_ends(path, ".json")) return known;
    snprintf(dir, sizeof dir, "%s", path);
    char *slash = strrchr(dir, '/');
    if (slash) slash[slash == dir] = 0;
    if (!is_file(slash ? dir : ".", "config.json")) return 0;
    convert_command(command, sizeof command, slash ? dir : ".");
    return err_set(e, "%s: is a file of a checkpoint; convert its directory%s: %s", path,
                   wanted == WHATIS_MODEL ? " first" : "", command),
           1;
}

int whatis_format(const char *path, struct err *e)
{
    struct err is = {0};
    char *head = err_is_memory(e) ? NULL : malloc(HEAD);
    int known = head && of_format(path, head, read_head(path, head, HEAD), &is);
    free(head);
    if (known) *e = is;
    return known;
}

int whatis(const char *path, enum whatis_wanted wanted, struct err *e)
{
    struct stat sb;
    struct err is = {0};
    char dir[PATH_MAX];
    int known;
    if (err_is_memory(e) || stat(path, &sb) ||
        snprintf(dir, sizeof dir, "%s", path) >= (int)sizeof dir)
        return 0;
    for (size_t n = strlen(dir); n > 1 && dir[n - 1] == '/'; n--) dir[n - 1] = 0;
    if (S_ISDIR(sb.st_mode)) known = of_directory(dir, wanted, 0, &is);
    else if (S_ISREG(sb.st_mode))
        known = sb.st_size ? of_file(path, wanted, &is)
                           : (err_set(&is, "%s: is an empty file", path), 1);
    else
        err_set(&is, "%s: is a %s, not a %s", path,
                S_ISFIFO(sb.st_mode)   ? "FIFO"
                : S_ISSOCK(sb.st_mode) ? "socket"
                                       : "device",
                wanted == WHATIS_MODEL ? "model file" : "checkpoint directory"),
            known = 1;
    if (known) *e = is;
    return known;
}
