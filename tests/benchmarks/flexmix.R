# Fits of R's flexmix: a mixture of regressions with a multinomial concomitant model, which is the
# dense Gaussian mixture of experts. Usage: Rscript flexmix.R FOLDER COUNT STARTS
# Reads FOLDER/i.csv (columns x, y, k), prints the log-likelihood and the processor seconds of each.
suppressPackageStartupMessages(library(flexmix))
args <- commandArgs(TRUE)
for (i in seq_len(as.integer(args[2])) - 1) {
  d <- read.csv(file.path(args[1], paste0(i, ".csv")))
  set.seed(i)
  began <- proc.time()[["user.self"]]
  f <- initFlexmix(y ~ x, data = d, k = d$k[1], nrep = as.integer(args[3]), verbose = FALSE,
                   concomitant = FLXPmultinom(~ x), control = list(minprior = 0, iter.max = 1000))
  cat(sprintf("%.10f %.4f\n", as.numeric(logLik(f)), proc.time()[["user.self"]] - began))
}
