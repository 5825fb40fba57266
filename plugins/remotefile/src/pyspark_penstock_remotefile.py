from penstock.spark.discovery import bind

DefaultSource = bind("remotefile")
